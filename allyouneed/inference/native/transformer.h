// A Transformer that encodes sentences and takes decoder steps, each in one call.
//
// Sentences live in slots of fixed size, their hypotheses in the beams of a slot. The keys and
// values of a hypothesis' token stay in the beam where the token was found: a table of origins,
// which the caller keeps, says where that was, so that reordering a beam moves no keys or values.
//
// All threads go through a stack together. Products are divided by outputs, everything else by
// rows, with a barrier in between.
#pragma once
#include "attention.h"
#include "best_tokens.h"
#include "product.h"
#include "threads.h"

struct Shape {
    int32_t vocabulary, d_model, d_ff, n_heads, d_k, d_v, encoder_layers, decoder_layers;
    int32_t pad, begin, end;
};

struct Row {
    int32_t slot, beam, position;
    int32_t token;    // the last one, at `position`
    int32_t forced;   // the only one that may come next, or -1
    int32_t may_end;  // whether the end mark may come next
};

class Engine {
   public:
    virtual ~Engine() = default;
    virtual void set_linear(int number, int n_out, int n_in, const void* w, const float* scale,
                            const float* bias) = 0;
    virtual void set_norm(int number, const float* gain, const float* bias) = 0;
    virtual void set_shortlist(int n_always, const int32_t* always) = 0;
    virtual void offer(int slot, int n, const int32_t* ids) = 0;
    virtual void reserve(int n_slots, int n_beams, int longest_source, int longest_target,
                         const float* positions) = 0;
    virtual void encode(int n_sentences, const int32_t* ids, const int32_t* lengths,
                        const int32_t* slots) = 0;
    virtual void watch(int layer, int stride, float* weights) = 0;
    virtual void step(int n_rows, const Row* rows, const int32_t* origins, int n_best,
                      int32_t* ids, float* log_probs) = 0;
};

template <class Number>
class EngineOf : public Engine {
   public:
    EngineOf(const Shape& shape, int n_threads)
        : shape_(shape),
          threads_(n_threads),
          linears_(1 + ENCODER_LINEARS * shape.encoder_layers +
                   DECODER_LINEARS * shape.decoder_layers),
          norms_(2 * shape.encoder_layers + 3 * shape.decoder_layers),
          own_(shape.decoder_layers),
          memory_(shape.decoder_layers),
          ids_(rounded_up(shape.vocabulary, COLUMNS)) {
        for (size_t id = 0; id < ids_.size(); ++id) ids_[id] = (int32_t)id;
    }

    void set_linear(int number, int n_out, int n_in, const void* w, const float* scale,
                    const float* bias) override {
        linears_[number].pack(n_out, n_in, (const Number*)w, scale, bias, number ? 0 : NEVER);
    }

    void set_norm(int number, const float* gain, const float* bias) override {
        Norm& norm = norms_[number];
        norm.gain.assign(gain, gain + shape_.d_model);
        norm.bias.assign(bias, bias + shape_.d_model);
    }

    void set_shortlist(int n_always, const int32_t* always) override {
        always_.choose(linears_[0], n_always, always);
    }

    void offer(int slot, int n, const int32_t* ids) override {
        offered_[slot].choose(linears_[0], n, ids);
    }

    void reserve(int n_slots, int n_beams, int longest_source, int longest_target,
                 const float* positions) override {
        n_beams_ = n_beams;
        n_slots_ = n_slots;
        source_stride_ = rounded_up(longest_source, LANES);
        target_stride_ = longest_target;
        positions_ = positions;
        const size_t n_source = (size_t)n_slots * shape_.n_heads * source_stride_;
        const size_t n_target = (size_t)n_slots * shape_.n_heads * target_stride_ * n_beams;
        for (auto& cache : memory_) cache.resize(n_source * shape_.d_k, n_source * shape_.d_v);
        for (auto& cache : own_) cache.resize(n_target * shape_.d_k, n_target * shape_.d_v);
        scores_.resize((size_t)threads_.most() * score_stride());
        transposed_.resize((size_t)threads_.most() * shape_.d_k * source_stride_);
        offered_.resize(std::max(offered_.size(), (size_t)n_slots));
    }

    void encode(int n_sentences, const int32_t* ids, const int32_t* lengths,
                const int32_t* slots) override {
        std::vector<int> first(n_sentences + 1, 0), position;
        for (int i = 0; i < n_sentences; ++i) {
            first[i + 1] = first[i] + lengths[i];
            for (int place = 0; place < lengths[i]; ++place) position.push_back(place);
        }
        const int n_rows = first[n_sentences];
        prepare(n_rows);
        threads_.run([&](int thread) {
            const Share rows(n_rows, thread, threads_.count());
            const Share heads(n_sentences * shape_.n_heads, thread, threads_.count());
            for (int r = rows.begin; r < rows.end; ++r) embed(r, ids[r], position[r]);
            threads_.barrier();
            for (int layer = 0; layer < shape_.encoder_layers; ++layer) {
                const Linear<Number>* linear = &linears_[1 + layer * ENCODER_LINEARS];
                const Norm* norm = &norms_[2 * layer];
                project(linear[0], n_rows, thread);
                for (int i = heads.begin; i < heads.end; ++i) {
                    const int sentence = i / shape_.n_heads;
                    attend_in_sentence(first[sentence], lengths[sentence], i % shape_.n_heads,
                                       linear[0], thread);
                }
                threads_.barrier();
                for (int r = rows.begin; r < rows.end; ++r)
                    factor_.set(r, heads_at(r), shape_.n_heads * shape_.d_v);
                threads_.barrier();
                add_and_norm(linear[1], norm[0], rows, n_rows, thread);
                feed_forward(linear[2], linear[3], norm[1], rows, n_rows, thread);
            }
            for (int layer = 0; layer < shape_.decoder_layers; ++layer) {
                const Linear<Number>& linear = decoder_linears(layer)[MEMORY];
                project(linear, n_rows, thread);
                for (int i = heads.begin; i < heads.end; ++i) {
                    const int sentence = i / shape_.n_heads;
                    keep_memory(layer, slots[sentence], i % shape_.n_heads, first[sentence],
                                lengths[sentence], linear);
                }
                threads_.barrier();
            }
        });
        source_length_.resize(n_slots_);
        for (int i = 0; i < n_sentences; ++i) source_length_[slots[i]] = lengths[i];
    }

    // Have steps write what the rows of a layer attend to in the memory, the mean over the heads,
    // into rows of `weights`; -1 is no layer. While one is watched, rows may be several tokens of
    // one hypothesis.
    void watch(int layer, int stride, float* weights) override {
        watched_ = {layer, stride, weights};
    }

    void step(int n_rows, const Row* row, const int32_t* origins, int n_best, int32_t* ids,
              float* log_probs) override {
        prepare(n_rows);
        const int n_threads = threads_.count();
        best_.resize((size_t)n_threads * n_rows);
        best_logits_.resize((size_t)n_threads * n_rows * n_best);
        best_ids_.resize((size_t)n_threads * n_rows * n_best);
        threads_.run([&](int thread) {
            const Share rows(n_rows, thread, n_threads);
            for (int r = rows.begin; r < rows.end; ++r) embed(r, row[r].token, row[r].position);
            threads_.barrier();
            for (int layer = 0; layer < shape_.decoder_layers; ++layer) {
                const Linear<Number>* linear = decoder_linears(layer);
                const Norm* norm = &norms_[2 * shape_.encoder_layers + 3 * layer];
                project(linear[OWN], n_rows, thread);
                for (int r = rows.begin; r < rows.end; ++r) keep_own(layer, r, row[r], linear[OWN]);
                if (watched_.layer >= 0) threads_.barrier();  // else all that it needs is its own
                for (int r = rows.begin; r < rows.end; ++r)
                    attend_to_own(layer, r, row[r], origins, linear[OWN], thread);
                threads_.barrier();
                add_and_norm(linear[OWN_OUT], norm[0], rows, n_rows, thread);
                project(linear[QUERY], n_rows, thread);
                for (int r = rows.begin; r < rows.end; ++r)
                    attend_to_memory(layer, r, row[r].slot, linear[QUERY], thread);
                threads_.barrier();
                add_and_norm(linear[MEMORY_OUT], norm[1], rows, n_rows, thread);
                feed_forward(linear[HIDDEN], linear[HIDDEN_OUT], norm[2], rows, n_rows, thread);
            }
            find_best(n_rows, row, n_best, thread);
            threads_.barrier();
            for (int r = rows.begin; r < rows.end; ++r) {
                BestTokens& best = best_[r];
                for (int other = 1; other < n_threads; ++other)
                    best.join(best_[(size_t)other * n_rows + r]);
                const float log_mass = best.log_mass();
                for (int i = 0; i < n_best; ++i) {
                    ids[(size_t)r * n_best + i] = best.ids[i];
                    log_probs[(size_t)r * n_best + i] = best.logits[i] - log_mass;
                }
            }
        });
    }

   private:
    // The linear maps: number 0 is the embedding, then those of every layer in these orders.
    static constexpr int ENCODER_LINEARS = 4;  // queries keys values, output, hidden, output
    static constexpr int64_t WORTH_SHARING = 10'000'000;  // products: a tenth of a millisecond
    enum { OWN, OWN_OUT, QUERY, MEMORY, MEMORY_OUT, HIDDEN, HIDDEN_OUT, DECODER_LINEARS };

    struct Norm {
        std::vector<float> gain, bias;
    };

    // Some pieces of the vocabulary.
    struct Choices {
        Linear<Number> linear;
        std::vector<int32_t> ids;  // of its columns, the last panel filled up

        void choose(const Linear<Number>& vocabulary, int n, const int32_t* pieces) {
            ids.assign(pieces, pieces + n);
            linear.gather(vocabulary, ids, NEVER);
            ids.resize(linear.n_panels * COLUMNS);
        }
    };

    // Of one layer: own keys and values (slot, head, position, beam, d), the memory's keys
    // transposed (slot, head, d, position) and its values (slot, head, position, d).
    struct Cache {
        Memory<float> k, v;
        void resize(size_t n_k, size_t n_v) {
            k.resize(n_k);
            v.resize(n_v);
        }
    };

    struct Watched {
        int layer, stride;
        float* weights;  // which begin as 0
    };

    const Linear<Number>* decoder_linears(int layer) const {
        return &linears_[1 + ENCODER_LINEARS * shape_.encoder_layers + layer * DECODER_LINEARS];
    }

    static int stride(const Linear<Number>& linear) { return linear.n_panels * COLUMNS; }

    // Room for so many rows, and threads enough for them.
    void prepare(int n_rows) {
        int widest = 0, widest_in = 0;
        int64_t n_products = 0;
        for (size_t i = 0; i < linears_.size(); ++i) {
            if (i) widest = std::max(widest, stride(linears_[i]));
            widest_in = std::max(widest_in, linears_[i].n_in);
            n_products += (int64_t)linears_[i].n_out * linears_[i].n_in;
        }
        threads_.share_work(n_rows * n_products > WORTH_SHARING);
        x_.resize((size_t)n_rows * shape_.d_model);
        heads_.resize((size_t)n_rows * shape_.n_heads * shape_.d_v);
        projected_.resize((size_t)n_rows * widest);
        factor_.resize(n_rows, widest_in);
    }

    float* x_at(int row) const { return &x_[(size_t)row * shape_.d_model]; }
    float* heads_at(int row) const { return &heads_[(size_t)row * shape_.n_heads * shape_.d_v]; }
    float* projected_at(int row, const Linear<Number>& by) const {
        return &projected_[(size_t)row * stride(by)];
    }
    int score_stride() const {
        return rounded_up(std::max(source_stride_, target_stride_), LANES);
    }
    float* scores_of(int thread) const { return &scores_[(size_t)thread * score_stride()]; }

    void embed(int row, int id, int position) {
        float* x = x_at(row);
        linears_[0].unpack(id, std::sqrt((float)shape_.d_model), x);
        const float* added = positions_ + (size_t)position * shape_.d_model;
        for (int i = 0; i < shape_.d_model; ++i) x[i] += added[i];
        factor_.set(row, x, shape_.d_model);
    }

    // All rows of `factor_` through a linear map, into `projected_`.
    void project(const Linear<Number>& linear, int n_rows, int thread, bool rectified = false) {
        const Share panels(linear.n_panels, thread, threads_.count());
        const Floats least = all(rectified ? 0 : NEVER);
        multiply(factor_, 0, n_rows, linear, panels.begin, panels.end,
                 [&](int row, int column, const Floats* outputs) {
                     float* to = projected_at(row, linear) + column;
                     for (int s = 0; s < STRIPS; ++s)
                         store(to + s * LANES, larger(outputs[s], least));
                 });
        threads_.barrier();
    }

    // x becomes LayerNorm(x + what the linear map makes of `factor_`), and the next factor.
    void add_and_norm(const Linear<Number>& linear, const Norm& norm, const Share& rows,
                      int n_rows, int thread) {
        project(linear, n_rows, thread);
        for (int r = rows.begin; r < rows.end; ++r) {
            normalize(x_at(r), projected_at(r, linear), norm);
            factor_.set(r, x_at(r), shape_.d_model);
        }
        threads_.barrier();
    }

    void normalize(float* x, const float* added, const Norm& norm) const {
        const int width = shape_.d_model;
        Floats total = {}, squares = {};
        for (int i = 0; i < width; i += LANES) {
            const Floats both = load(x + i) + load(added + i);
            total += both;
            store(x + i, both);
        }
        const float mean = sum(total) / width;
        for (int i = 0; i < width; i += LANES) {
            const Floats apart = load(x + i) - mean;
            squares += apart * apart;
        }
        const float per_deviation = 1 / std::sqrt(sum(squares) / width + 1e-5f);
        for (int i = 0; i < width; i += LANES)
            store(x + i, (load(x + i) - mean) * per_deviation * load(&norm.gain[i]) +
                             load(&norm.bias[i]));
    }

    void feed_forward(const Linear<Number>& hidden, const Linear<Number>& out, const Norm& norm,
                      const Share& rows, int n_rows, int thread) {
        project(hidden, n_rows, thread, true);
        for (int r = rows.begin; r < rows.end; ++r)
            factor_.set(r, projected_at(r, hidden), shape_.d_ff);
        threads_.barrier();
        add_and_norm(out, norm, rows, n_rows, thread);
    }

    // Encoder: one head of one sentence, whose queries, keys and values stand in `projected_`.
    void attend_in_sentence(int first, int length, int head, const Linear<Number>& linear,
                            int thread) {
        const int d_k = shape_.d_k, d_v = shape_.d_v, n_heads = shape_.n_heads;
        const int key = (n_heads + head) * d_k, value = 2 * n_heads * d_k + head * d_v;
        float* keys = &transposed_[(size_t)thread * d_k * source_stride_];
        for (int i = 0; i < length; ++i)
            for (int d = 0; d < d_k; ++d)
                keys[(size_t)d * source_stride_ + i] = projected_at(first + i, linear)[key + d];
        for (int i = 0; i < length; ++i)
            attend_transposed(
                projected_at(first + i, linear) + head * d_k, length, d_k, d_v, keys,
                source_stride_, [&](int k) { return projected_at(first + k, linear) + value; },
                scores_of(thread), heads_at(first + i) + head * d_v);
    }

    void keep_memory(int layer, int slot, int head, int first, int length,
                     const Linear<Number>& linear) {
        const int d_k = shape_.d_k, d_v = shape_.d_v;
        const size_t place = ((size_t)slot * shape_.n_heads + head) * source_stride_;
        float* keys = &memory_[layer].k[place * d_k];
        float* values = &memory_[layer].v[place * d_v];
        const int key_stride = rounded_up(length, LANES);
        for (int i = 0; i < length; ++i) {
            const float* from = projected_at(first + i, linear);
            for (int d = 0; d < d_k; ++d) keys[(size_t)d * key_stride + i] = from[head * d_k + d];
            from += shape_.n_heads * d_k + head * d_v;
            std::memcpy(values + (size_t)i * d_v, from, 4 * d_v);
        }
    }

    void keep_own(int layer, int r, const Row& row, const Linear<Number>& linear) {
        const int d_k = shape_.d_k, d_v = shape_.d_v, n_heads = shape_.n_heads;
        const float* from = projected_at(r, linear);
        for (int head = 0; head < n_heads; ++head) {
            const size_t place = own_place(row, head) + (size_t)row.position * n_beams_ + row.beam;
            std::memcpy(&own_[layer].k[place * d_k], from + (n_heads + head) * d_k, 4 * d_k);
            std::memcpy(&own_[layer].v[place * d_v], from + 2 * n_heads * d_k + head * d_v,
                        4 * d_v);
        }
    }

    // To all tokens of a row's hypothesis, up to its own.
    void attend_to_own(int layer, int r, const Row& row, const int32_t* origins,
                       const Linear<Number>& linear, int thread) {
        const int d_k = shape_.d_k, d_v = shape_.d_v, n_heads = shape_.n_heads;
        const int32_t* origin =
            origins + ((size_t)row.slot * n_beams_ + row.beam) * target_stride_;
        for (int head = 0; head < n_heads; ++head) {
            const float* keys = &own_[layer].k[own_place(row, head) * d_k];
            const float* values = &own_[layer].v[own_place(row, head) * d_v];
            attend_scattered(
                projected_at(r, linear) + head * d_k, row.position + 1, d_k, d_v,
                [&](int i) { return keys + ((size_t)i * n_beams_ + origin[i]) * d_k; },
                [&](int i) { return values + ((size_t)i * n_beams_ + origin[i]) * d_v; },
                scores_of(thread), heads_at(r) + head * d_v);
        }
        factor_.set(r, heads_at(r), n_heads * d_v);
    }

    // Where the tokens of a row's slot begin in one head's cache.
    size_t own_place(const Row& row, int head) const {
        return ((size_t)row.slot * shape_.n_heads + head) * target_stride_ * n_beams_;
    }

    void attend_to_memory(int layer, int r, int slot, const Linear<Number>& linear, int thread) {
        const int d_k = shape_.d_k, d_v = shape_.d_v, n_heads = shape_.n_heads;
        for (int head = 0; head < n_heads; ++head) {
            const size_t place = ((size_t)slot * n_heads + head) * source_stride_;
            const float* values = &memory_[layer].v[place * d_v];
            attend_transposed(
                projected_at(r, linear) + head * d_k, source_length_[slot], d_k, d_v,
                &memory_[layer].k[place * d_k], rounded_up(source_length_[slot], LANES),
                [&](int i) { return values + (size_t)i * d_v; }, scores_of(thread),
                heads_at(r) + head * d_v);
            if (layer == watched_.layer) {
                float* mean = watched_.weights + (size_t)r * watched_.stride;
                for (int i = 0; i < source_length_[slot]; ++i)
                    mean[i] += scores_of(thread)[i] / n_heads;
            }
        }
        factor_.set(r, heads_at(r), n_heads * d_v);
    }

    // This thread's part of what may be chosen.
    void find_best(int n_rows, const Row* row, int n_best, int thread) {
        const size_t first = (size_t)thread * n_rows;
        for (int r = 0; r < n_rows; ++r)
            best_[first + r].begin(&best_logits_[(first + r) * n_best],
                                   &best_ids_[(first + r) * n_best], n_best, row[r].forced,
                                   row[r].may_end);
        const Rules rules = {shape_.pad, shape_.begin, shape_.end};
        const auto look = [&](int from, int to, const Linear<Number>& linear, const Share& panels,
                              const std::vector<int32_t>& ids) {
            multiply(factor_, from, to, linear, panels.begin, panels.end,
                     [&](int r, int column, const Floats* outputs) {
                         best_[first + r].see(&ids[column], outputs, rules);
                     });
        };
        const int n_threads = threads_.count();
        if (always_.ids.empty() || watched_.layer >= 0) {  // what is read may hold any piece
            look(0, n_rows, linears_[0], Share(linears_[0].n_panels, thread, n_threads), ids_);
            return;
        }
        look(0, n_rows, always_.linear, Share(always_.linear.n_panels, thread, n_threads),
             always_.ids);
        const Share rows(n_rows, thread, n_threads);
        for (int from = rows.begin, to; from < rows.end; from = to) {
            for (to = from; to < rows.end && row[to].slot == row[from].slot;) ++to;
            const Choices& offered = offered_[row[from].slot];
            look(from, to, offered.linear, Share(offered.linear.n_panels, 0, 1), offered.ids);
        }
    }

    const Shape shape_;
    Threads threads_;
    std::vector<Linear<Number>> linears_;
    std::vector<Norm> norms_;
    const float* positions_ = nullptr;  // (longest, d_model), kept by the caller
    int n_slots_ = 0, n_beams_ = 0, source_stride_ = 0, target_stride_ = 0;
    Watched watched_ = {-1, 0, nullptr};
    std::vector<Cache> own_, memory_;
    std::vector<int> source_length_;
    Memory<float> x_, heads_, projected_, scores_, transposed_, best_logits_;
    Memory<int32_t> best_ids_;
    Memory<BestTokens> best_;
    Factor<Number> factor_;
    std::vector<int32_t> ids_;  // of all columns of the vocabulary
    Choices always_;                 // of a shortlist
    std::vector<Choices> offered_;   // by slot
};
