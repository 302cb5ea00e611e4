// Matrix products x · Wᵀ with W packed once, in float32 or in eight bits.
//
// W (n_out, n_in) is packed in panels of COLUMNS outputs; a panel holds, for every step along
// n_in, what is multiplied next. A step is one number in float32 and four in eight bits.
// Eight bits: W is stored as unsigned bytes, 128 too much, so that the processor's
// unsigned-by-signed instruction fits; the sum of the other factor takes the 128 out again.
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "vectors.h"

#if defined(__AVX512F__) || !defined(__AVX2__)
constexpr int STRIPS = 4;  // vectors of outputs in a panel: 32 registers
#else
constexpr int STRIPS = 2;
#endif
constexpr int ROWS = 6;  // of x at once
constexpr int COLUMNS = STRIPS * LANES;

inline int rounded_up(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

// Memory that is aligned, starts out as zeros and takes room only where it has been written.
template <class T>
class Memory {
   public:
    Memory() = default;
    explicit Memory(size_t n) { resize(n); }
    Memory(Memory&& other) noexcept : data_(other.data_), size_(other.size_) {
        other.data_ = nullptr;
        other.size_ = 0;
    }
    Memory& operator=(Memory&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~Memory() { release(); }

    // What was in it is gone if it grows.
    void resize(size_t n) {
        if (n <= size_) return;
        release();
        void* got = mmap(nullptr, n * sizeof(T), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (got == MAP_FAILED) throw std::bad_alloc();
        data_ = (T*)got;
        size_ = n;
    }
    void use_huge_pages() {
#if defined(MADV_HUGEPAGE)
        madvise(data_, size_ * sizeof(T), MADV_HUGEPAGE);
#endif
    }
    T* data() const { return data_; }
    T& operator[](size_t i) const { return data_[i]; }

   private:
    void release() {
        if (data_) munmap(data_, size_ * sizeof(T));
        data_ = nullptr;
        size_ = 0;
    }
    T* data_ = nullptr;
    size_t size_ = 0;
};

// Rows that will be multiplied, as the product takes them.
template <class Number>
struct Factor;

template <>
struct Factor<float> {
    Memory<float> numbers;
    int stride = 0;

    void resize(int n_rows, int width) {
        stride = width;
        numbers.resize((size_t)n_rows * stride);
    }
    void set(int row, const float* x, int width) {
        std::memcpy(&numbers[(size_t)row * stride], x, 4 * width);
    }
};

template <>
struct Factor<int8_t> {
    Memory<int8_t> numbers;
    Memory<float> scale, zero;  // x is (number + zero) · scale, with a row's smallest at -127
    Memory<int32_t> excess;     // what 128 too much in every weight adds to a row's products
    int stride = 0;

    void resize(int n_rows, int width) {
        stride = rounded_up(width, 4);
        numbers.resize((size_t)n_rows * stride);
        scale.resize(n_rows);
        zero.resize(n_rows);
        excess.resize(n_rows);
    }
    void set(int row, const float* x, int width) {
        Floats most = load(x), least = load(x);
        for (int i = LANES; i < width; i += LANES) {
            most = larger(most, load(x + i));
            least = smaller(least, load(x + i));
        }
        const float low = -largest(-least), range = std::max(largest(most) - low, 1e-30f);
        const float per_unit = 254 / range;
        int8_t* to = &numbers[(size_t)row * stride];
        Ints total = {};
        for (int i = 0; i < width; i += LANES) {
            const Floats rounded = (load(x + i) - low) * per_unit + 12582912.0f;
            const Ints whole = (Ints)rounded - (Ints)all(12582912.0f + 127);
            total += whole;
            const Bytes bytes = __builtin_convertvector(whole, Bytes);
            std::memcpy(to + i, &bytes, sizeof bytes);
        }
        int32_t all_lanes = 0;
        for (int lane = 0; lane < LANES; ++lane) all_lanes += total[lane];
        excess[row] = 128 * all_lanes;
        scale[row] = range / 254;
        zero[row] = 127 + low * per_unit;
    }
};

// A linear map, packed.
template <class Number>
struct Linear {
    using Unit = std::conditional_t<std::is_same_v<Number, float>, float, int32_t>;
    static constexpr int PER_UNIT = sizeof(Unit) / sizeof(Number);

    int n_out = 0, n_in = 0, n_panels = 0, n_steps = 0;
    Memory<Unit> panels;
    Memory<float> scale, bias;
    Memory<float> row_sum;  // of W, in eight bits: what the zero of x is multiplied by

    // Room for so many outputs.
    void resize(int outputs, int inputs) {
        n_out = outputs;
        n_in = inputs;
        n_panels = rounded_up(n_out, COLUMNS) / COLUMNS;
        n_steps = rounded_up(n_in, PER_UNIT) / PER_UNIT;
        panels.resize((size_t)n_panels * n_steps * COLUMNS);
        panels.use_huge_pages();
        scale.resize(n_panels * COLUMNS);
        bias.resize(n_panels * COLUMNS);
        row_sum.resize(n_panels * COLUMNS);
    }

    // `w_scale` is for eight bits, `w_bias` may be null. What fills up the last panel comes out as
    // `padding`.
    void pack(int outputs, int inputs, const Number* w, const float* w_scale, const float* w_bias,
              float padding = 0) {
        resize(outputs, inputs);
        for (int column = 0; column < n_panels * COLUMNS; ++column) {
            const bool real = column < n_out;
            scale[column] = real && w_scale ? w_scale[column] : 0;
            bias[column] = !real ? padding : w_bias ? w_bias[column] : 0;
            if (!real) continue;
            for (int i = 0; i < n_in; ++i) {
                const Number weight = w[(size_t)column * n_in + i];
                row_sum[column] += weight;
                *place(column, i) = stored(weight);
            }
        }
    }

    // Become some outputs of another map; what fills up the last panel comes out as `padding`.
    void gather(const Linear& other, const std::vector<int32_t>& outputs, float padding) {
        resize((int)outputs.size(), other.n_in);
        for (int column = 0; column < n_out; ++column) {
            const int from = outputs[column];
            for (int step = 0; step < n_steps; ++step) *unit(column, step) = *other.unit(from, step);
            scale[column] = other.scale[from];
            bias[column] = other.bias[from];
            row_sum[column] = other.row_sum[from];
        }
        for (int column = n_out; column < n_panels * COLUMNS; ++column) {
            scale[column] = 0;
            bias[column] = padding;
        }
    }

    // Row `row` of W as floats: what an embedding looks up.
    void unpack(int row, float factor, float* to) const {
        for (int i = 0; i < n_in; ++i) {
            if constexpr (PER_UNIT == 1)
                to[i] = *place(row, i) * factor;
            else
                to[i] = ((int)(uint8_t)*place(row, i) - 128) * scale[row] * factor;
        }
    }

   private:
    static Number stored(Number w) {
        if constexpr (PER_UNIT == 1) return w;
        return (Number)(w + 128);  // the bytes of an unsigned number
    }
    Unit* unit(int column, int step) const {
        return &panels[((size_t)(column / COLUMNS) * n_steps + step) * COLUMNS + column % COLUMNS];
    }
    Number* place(int column, int i) const {
        return (Number*)unit(column, i / PER_UNIT) + i % PER_UNIT;
    }
};

// R rows of x by one panel: `finish(row, column, outputs[STRIPS])` for each of them.
template <int R, class Finish>
inline void multiply_rows(const Factor<float>& x, int row, const Linear<float>& w, int panel,
                          const Finish& finish) {
    Floats total[R][STRIPS] = {};
    const float* from = &w.panels[(size_t)panel * w.n_steps * COLUMNS];
    const float* rows = &x.numbers[(size_t)row * x.stride];
    for (int step = 0; step < w.n_steps; ++step, from += COLUMNS) {
        Floats weights[STRIPS];
        for (int s = 0; s < STRIPS; ++s) weights[s] = load(from + s * LANES);
        for (int r = 0; r < R; ++r) {
            const Floats factor = all(rows[(size_t)r * x.stride + step]);
            for (int s = 0; s < STRIPS; ++s) total[r][s] += weights[s] * factor;
        }
    }
    const int column = panel * COLUMNS;
    for (int r = 0; r < R; ++r) {
        for (int s = 0; s < STRIPS; ++s) total[r][s] += load(&w.bias[column + s * LANES]);
        finish(row + r, column, total[r]);
    }
}

template <int R, class Finish>
inline void multiply_rows(const Factor<int8_t>& x, int row, const Linear<int8_t>& w, int panel,
                          const Finish& finish) {
    Ints total[R][STRIPS] = {};
    const int32_t* from = &w.panels[(size_t)panel * w.n_steps * COLUMNS];
    const int8_t* rows = &x.numbers[(size_t)row * x.stride];
    for (int step = 0; step < w.n_steps; ++step, from += COLUMNS) {
        Ints weights[STRIPS];
        for (int s = 0; s < STRIPS; ++s) std::memcpy(&weights[s], from + s * LANES, sizeof(Ints));
        for (int r = 0; r < R; ++r) {
            int32_t four;
            std::memcpy(&four, rows + (size_t)r * x.stride + 4 * step, 4);
            const Ints factor = four - Ints{};
            for (int s = 0; s < STRIPS; ++s)
                total[r][s] = add_four_products(total[r][s], weights[s], factor);
        }
    }
    const int column = panel * COLUMNS;
    for (int r = 0; r < R; ++r) {
        Floats outputs[STRIPS];
        for (int s = 0; s < STRIPS; ++s) {
            const Floats whole = __builtin_convertvector(total[r][s] - x.excess[row + r], Floats);
            const Floats shifted = whole + load(&w.row_sum[column + s * LANES]) * x.zero[row + r];
            outputs[s] = shifted * (load(&w.scale[column + s * LANES]) * x.scale[row + r]) +
                         load(&w.bias[column + s * LANES]);
        }
        finish(row + r, column, outputs);
    }
}

// Of x · Wᵀ the rows from `first` to `last` in the panels from `begin` to `end`.
template <class Number, class Finish>
void multiply(const Factor<Number>& x, int first, int last, const Linear<Number>& w, int begin,
              int end, const Finish& finish) {
    for (int panel = begin; panel < end; ++panel) {
        int row = first;
        for (; row + ROWS <= last; row += ROWS) multiply_rows<ROWS>(x, row, w, panel, finish);
        switch (last - row) {
            case 5: multiply_rows<5>(x, row, w, panel, finish); break;
            case 4: multiply_rows<4>(x, row, w, panel, finish); break;
            case 3: multiply_rows<3>(x, row, w, panel, finish); break;
            case 2: multiply_rows<2>(x, row, w, panel, finish); break;
            case 1: multiply_rows<1>(x, row, w, panel, finish); break;
        }
    }
}
