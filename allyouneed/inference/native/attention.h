// One query's attention in one head: softmax(q Kᵀ / sqrt(d_k)) V, equation 1.
#pragma once
#include <limits>
#include <vector>

#include "vectors.h"

// Scores, padded with -∞ to whole vectors, become weights.
inline void softmax(float* scores, int n_keys) {
    const int n_padded = (n_keys + LANES - 1) / LANES * LANES;
    for (int i = n_keys; i < n_padded; ++i) scores[i] = -std::numeric_limits<float>::infinity();
    Floats most = load(scores), total = {};
    for (int i = LANES; i < n_padded; i += LANES) most = larger(most, load(scores + i));
    const float reference = largest(most);
    for (int i = 0; i < n_padded; i += LANES) {
        const Floats weight = exponential(load(scores + i) - reference);
        total += weight;
        store(scores + i, weight);
    }
    const float share = 1 / sum(total);
    for (int i = 0; i < n_padded; i += LANES) store(scores + i, load(scores + i) * share);
}

// The weighted sum of values; `value(i)` is where the i-th stands.
template <class Value>
inline void weighted_sum(const float* weights, int n_keys, int d_v, const Value& value, float* to) {
    for (int lane = 0; lane < d_v; lane += LANES) {
        Floats even = {}, odd = {};  // two sums, so that one addition need not wait for the last
        int i = 0;
        for (; i + 1 < n_keys; i += 2) {
            even += load(value(i) + lane) * weights[i];
            odd += load(value(i + 1) + lane) * weights[i + 1];
        }
        if (i < n_keys) even += load(value(i) + lane) * weights[i];
        store(to + lane, even + odd);
    }
}

// Keys that stand anywhere, as those of a hypothesis whose tokens were found in several beams.
template <class Key, class Value>
inline void attend_scattered(const float* query, int n_keys, int d_k, int d_v, const Key& key,
                             const Value& value, float* scores, float* to) {
    const float scale = 1 / std::sqrt((float)d_k);
    for (int i = 0; i < n_keys; ++i) {
        Floats total = {};
        const float* k = key(i);
        for (int lane = 0; lane < d_k; lane += LANES) total += load(query + lane) * load(k + lane);
        scores[i] = sum(total) * scale;
    }
    softmax(scores, n_keys);
    weighted_sum(scores, n_keys, d_v, value, to);
}

// Keys that stand side by side, transposed: (d_k, stride), stride a multiple of LANES.
template <class Value>
inline void attend_transposed(const float* query, int n_keys, int d_k, int d_v, const float* keys,
                              int stride, const Value& value, float* scores, float* to) {
    const float scale = 1 / std::sqrt((float)d_k);
    for (int i = 0; i < n_keys; i += LANES) {
        Floats total[4] = {};
        for (int d = 0; d < d_k; d += 4)
            for (int part = 0; part < 4; ++part)
                total[part] += load(keys + (size_t)(d + part) * stride + i) * query[d + part];
        store(scores + i, ((total[0] + total[1]) + (total[2] + total[3])) * scale);
    }
    softmax(scores, n_keys);
    weighted_sum(scores, n_keys, d_v, value, to);
}
