// The most probable next tokens of a hypothesis, found while the logits are computed, so that
// they are never stored.
#pragma once
#include <limits>

#include "product.h"

constexpr float NEVER = -std::numeric_limits<float>::infinity();

// What may come next.
struct Rules {
    int32_t pad, begin, end;  // the first two never; `end` where a row allows it
};

// One row's logits so far, as one thread has seen them.
struct BestTokens {
    float reference = NEVER;  // what logits are measured from in `mass`
    Floats mass = {};         // the sum of e^(logit - reference), in lanes
    float* logits;            // the best, falling
    int32_t* ids;
    int n;
    int32_t forced;  // the only token allowed, or -1
    bool may_end;

    void begin(float* logits_to, int32_t* ids_to, int n_best, int32_t forced_id, bool end_allowed) {
        reference = NEVER;
        mass = Floats{};
        logits = logits_to;
        ids = ids_to;
        n = n_best;
        forced = forced_id;
        may_end = end_allowed;
        std::fill_n(logits, n, NEVER);
        std::fill_n(ids, n, 0);
    }

    // A panel's outputs, and which tokens they are of.
    void see(const int32_t* tokens, const Floats* outputs, const Rules& rules) {
        Floats most = outputs[0];
        for (int s = 1; s < STRIPS; ++s) most = larger(most, outputs[s]);
        // Far from overflow the reference may lag behind, which saves a search for the largest.
        if (any_above(most, reference + 40)) move_reference(largest(most));
        for (int s = 0; s < STRIPS; ++s) mass += exponential(outputs[s] - reference);
        if (forced >= 0) {
            for (int i = 0; i < COLUMNS; ++i)
                if (tokens[i] == forced) insert(outputs[i / LANES][i % LANES], forced);
        } else if (any_above(most, logits[n - 1])) {
            for (int i = 0; i < COLUMNS; ++i) {
                const float logit = outputs[i / LANES][i % LANES];
                if (logit > logits[n - 1] && allowed(tokens[i], rules)) insert(logit, tokens[i]);
            }
        }
    }

    // Take in what another thread has seen of the same row.
    void join(const BestTokens& other) {
        if (other.reference > reference) move_reference(other.reference);
        mass += other.mass * exponential(all(other.reference - reference));
        for (int i = 0; i < n && other.logits[i] > logits[n - 1]; ++i)
            insert(other.logits[i], other.ids[i]);
    }

    float log_mass() const { return reference + std::log(sum(mass)); }

   private:
    bool allowed(int32_t id, const Rules& rules) const {
        return id != rules.pad && id != rules.begin && (may_end || id != rules.end);
    }
    void move_reference(float to) {
        mass *= exponential(all(reference - to));
        reference = to;
    }
    void insert(float logit, int32_t id) {
        int place = n - 1;
        for (; place > 0 && logits[place - 1] < logit; --place) {
            logits[place] = logits[place - 1];
            ids[place] = ids[place - 1];
        }
        logits[place] = logit;
        ids[place] = id;
    }
};
