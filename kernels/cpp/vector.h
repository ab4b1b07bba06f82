// Vectors of 16 floats, as GCC and Clang make them for any processor.
#pragma once
#include <cmath>
#include <cstdint>

constexpr int64_t LANES = 16;

typedef float vec __attribute__((vector_size(64)));
typedef int32_t ints __attribute__((vector_size(64)));
typedef uint16_t shorts __attribute__((vector_size(32)));
typedef uint16_t loose_shorts __attribute__((vector_size(32), aligned(2), may_alias));
typedef float loose __attribute__((vector_size(64), aligned(4), may_alias));  // anywhere in memory

static inline vec load(const float* p) {
    return *(const loose*)p;
}
static inline void store(float* p, vec x) {
    *(loose*)p = x;
}
static inline vec splat(float x) {
    return x - vec{};
}

// As many of 16 as are left, with `rest` behind.
static inline vec load_part(const float* p, int64_t left, float rest) {
    if (left >= LANES) return load(p);
    vec x = splat(rest);
    for (int64_t i = 0; i < left; i++) x[i] = p[i];
    return x;
}

static inline void store_part(float* p, vec x, int64_t left) {
    if (left >= LANES) return store(p, x);
    for (int64_t i = 0; i < left; i++) p[i] = x[i];
}

// A bfloat16: the upper half of a float32.
struct bfloat {
    uint16_t bits;
};

// To the nearest bfloat16, ties to even, as a float; NaN stays NaN.
static inline vec nearest(vec x) {
    const ints bits = (ints)x, up = (bits >> 16) & 1;
    return x != x ? x : (vec)((bits + (up + 0x7fff)) & (int32_t)0xffff0000);
}

static inline vec load_part(const bfloat* p, int64_t left, float rest) {
    if (left >= LANES) return (vec)(__builtin_convertvector(*(const loose_shorts*)p, ints) << 16);
    vec x = splat(rest);
    for (int64_t i = 0; i < left; i++) {
        const uint32_t bits = (uint32_t)p[i].bits << 16;
        float value;
        __builtin_memcpy(&value, &bits, sizeof value);
        x[i] = value;
    }
    return x;
}

static inline void store_part(bfloat* p, vec x, int64_t left) {
    const ints bits = (ints)nearest(x) >> 16;
    if (left >= LANES) {
        *(loose_shorts*)p = __builtin_convertvector(bits, shorts);
        return;
    }
    for (int64_t i = 0; i < left; i++) p[i].bits = (uint16_t)bits[i];
}

// What a product takes of numbers that are kept as T.
static inline vec operand(vec x, const float*) {
    return x;
}
static inline vec operand(vec x, const bfloat*) {
    return nearest(x);
}

// Halves of a vector, and halves of those.
typedef float vec8 __attribute__((vector_size(32)));
typedef float vec4 __attribute__((vector_size(16)));
union Parts {
    vec all;
    vec8 halves[2];
    vec4 quarters[4];
    float each[16];
};

static inline float sum(vec x) {
    Parts p = {x};
    const vec8 h = p.halves[0] + p.halves[1];
    __builtin_memcpy(&p, &h, sizeof h);
    const vec4 q = p.quarters[0] + p.quarters[1];
    return (q[0] + q[2]) + (q[1] + q[3]);
}

// The larger of two, or NaN where one of them is.
#define HIGHER(x, top) (((x) > (top)) | ((x) != (x)) ? (x) : (top))
static inline vec higher(vec x, vec top) {
    return HIGHER(x, top);
}

// The largest, or NaN where there is one.
static inline float highest(vec x) {
    Parts p = {x};
    const vec8 h = HIGHER(p.halves[0], p.halves[1]);
    __builtin_memcpy(&p, &h, sizeof h);
    const vec4 q = HIGHER(p.quarters[0], p.quarters[1]);
    const float a = HIGHER(q[0], q[1]), b = HIGHER(q[2], q[3]);
    return HIGHER(a, b);
}

static inline bool any(ints x) {
    int32_t found = 0;
    for (int i = 0; i < LANES; i++) found |= x[i];
    return found != 0;
}

static inline vec magnitude(vec x) {
    return (vec)((ints)x & 0x7fffffff);
}

static inline vec root(vec x) {
    for (int i = 0; i < LANES; i++) x[i] = std::sqrt(x[i]);
    return x;
}

#if defined(__clang__) || __GNUC__ >= 12
#define PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int32_t ints8 __attribute__((vector_size(32)));
#define PICK(a, b, ...) __builtin_shuffle(a, b, ints8{__VA_ARGS__})
#endif

// What eight vectors come to, each of them alone: all eight at once, since one after the other waits for itself.
template <typename Join>
static inline vec8 eight(const vec* x, Join join) {
    vec8 h[8], pairs[4], fours[2];
    for (int r = 0; r < 8; r++) {
        const Parts p = {x[r]};
        h[r] = join(p.halves[0], p.halves[1]);
    }
    for (int r = 0; r < 4; r++)
        pairs[r] = join(PICK(h[2 * r], h[2 * r + 1], 0, 8, 2, 10, 4, 12, 6, 14),
                        PICK(h[2 * r], h[2 * r + 1], 1, 9, 3, 11, 5, 13, 7, 15));
    for (int r = 0; r < 2; r++)
        fours[r] = join(PICK(pairs[2 * r], pairs[2 * r + 1], 0, 1, 8, 9, 4, 5, 12, 13),
                        PICK(pairs[2 * r], pairs[2 * r + 1], 2, 3, 10, 11, 6, 7, 14, 15));
    return join(PICK(fours[0], fours[1], 0, 1, 2, 3, 8, 9, 10, 11),
                PICK(fours[0], fours[1], 4, 5, 6, 7, 12, 13, 14, 15));
}

static inline vec8 eight_sums(const vec* x) {
    return eight(x, [](vec8 a, vec8 b) { return a + b; });
}
static inline vec8 eight_largest(const vec* x) {
    return eight(x, [](vec8 a, vec8 b) { return a > b ? a : b; });
}

// e**x of x <= 0, and 0 under -87. NaN stays NaN. The polynomial is that of Cephes' expf (Moshier 1992).
static inline vec exp_of_negative(vec x) {
    const ints small = x < -87.0f;
    const vec n = (x * 1.44269504f + 12582912.0f) - 12582912.0f;  // the nearest whole number
    const vec r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    vec y = splat(1.9875691500e-4f);
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * r * r + r + 1.0f;
    const ints power = (__builtin_convertvector(n, ints) + 127) << 23;
    return small ? vec{} : y * (vec)power;
}

// Each float and its neighbour in a pair, changed for each other.
static inline vec swapped(vec x) {
#ifdef __clang__
    return __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
#else
    return __builtin_shuffle(x, ints{1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14});
#endif
}
