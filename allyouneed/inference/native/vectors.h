// As many floats as the processor takes at once, in the compiler's own vector types, which any
// processor has; intrinsics only where those cannot say it.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
constexpr int LANES = 16;
#elif defined(__AVX2__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif

typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));
typedef int8_t Bytes __attribute__((vector_size(LANES)));

inline Floats load(const float* from) {
    Floats x;
    std::memcpy(&x, from, sizeof x);
    return x;
}

inline void store(float* to, Floats x) { std::memcpy(to, &x, sizeof x); }

inline Floats all(float x) { return x - Floats{}; }

inline Floats larger(Floats a, Floats b) { return a > b ? a : b; }

inline Floats smaller(Floats a, Floats b) { return a < b ? a : b; }

// Lanes are added in pairs, pairs of pairs and so on: few steps, little rounding.
inline float sum(Floats x) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps((__m512)x);
#endif
    float lane[LANES];
    store(lane, x);
    for (int width = LANES / 2; width; width /= 2)
        for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
    return lane[0];
}

inline float largest(Floats x) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_ps((__m512)x);
#endif
    float most = x[0];
    for (int lane = 1; lane < LANES; ++lane) most = x[lane] > most ? x[lane] : most;
    return most;
}

inline bool any_above(Floats x, float threshold) {
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(threshold), _CMP_GT_OQ) != 0;
#elif defined(__AVX2__)
    return _mm256_movemask_ps((__m256)(x > threshold)) != 0;
#else
    return largest(x) > threshold;
#endif
}

// e^x to the last bit or two: 2^n by its bits, the rest by Cephes' polynomial.
inline Floats exponential(Floats x) {
    x = smaller(larger(x, all(-87.0f)), all(88.0f));
    const Floats shifted = x * 1.44269504f + 12582912.0f;  // 1.5·2^23: rounds to a whole number
    const Floats n = shifted - 12582912.0f;
    const Floats r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    const Ints power = (Ints)shifted << 23;
    return (Floats)((Ints)p + power);
}

// To each 32-bit lane of `total`, four products: bytes of `weights` (unsigned) by bytes of `x`
// (signed). Exact on every processor.
inline Ints add_four_products(Ints total, Ints weights, Ints x) {
#if defined(__AVX512VNNI__)
    return (Ints)_mm512_dpbusd_epi32((__m512i)total, (__m512i)weights, (__m512i)x);
#elif defined(__AVX512BW__)
    const __m512i w = (__m512i)weights, a = (__m512i)x;
    const __m512i even = _mm512_madd_epi16(_mm512_and_si512(w, _mm512_set1_epi16(255)),
                                           _mm512_srai_epi16(_mm512_slli_epi16(a, 8), 8));
    const __m512i odd = _mm512_madd_epi16(_mm512_srli_epi16(w, 8), _mm512_srai_epi16(a, 8));
    return total + (Ints)even + (Ints)odd;
#elif defined(__AVX2__)
    const __m256i w = (__m256i)weights, a = (__m256i)x;
    const __m256i even = _mm256_madd_epi16(_mm256_and_si256(w, _mm256_set1_epi16(255)),
                                           _mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8));
    const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(w, 8), _mm256_srai_epi16(a, 8));
    return total + (Ints)even + (Ints)odd;
#else
    for (int byte = 0; byte < 4; ++byte)
        total += (weights >> (8 * byte) & 255) * (x << (24 - 8 * byte) >> 24);
    return total;
#endif
}
