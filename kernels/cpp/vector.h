// Vectors of GCC and Clang, of as many floats as a register holds. Of longer ones they compare and choose float by float.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#ifdef __AVX512F__
#define NEIGHBOURS 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14
#define LOWER_HALVES 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define UPPER_HALVES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
constexpr int64_t LANES = 16;
#else
#define NEIGHBOURS 1, 0, 3, 2, 5, 4, 7, 6
#define LOWER_HALVES 0, 8, 1, 9, 2, 10, 3, 11
#define UPPER_HALVES 4, 12, 5, 13, 6, 14, 7, 15
constexpr int64_t LANES = 8;
#endif

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));
typedef uint16_t shorts __attribute__((vector_size(2 * LANES)));
typedef uint16_t loose_shorts __attribute__((vector_size(2 * LANES), aligned(2), may_alias));
typedef float loose __attribute__((vector_size(4 * LANES), aligned(4), may_alias));  // anywhere in memory

static inline vec load(const float* p) {
    return *(const loose*)p;
}
static inline void store(float* p, vec x) {
    *(loose*)p = x;
}
static inline vec splat(float x) {
    return x - vec{};
}

// Of less than a vector, float by float: apart, since a vector that is read by places goes through memory.
__attribute__((noinline, cold)) static vec load_few(const float* p, int64_t left, float rest) {
    vec x = splat(rest);
    for (int64_t i = 0; i < left; i++) x[i] = p[i];
    return x;
}
__attribute__((noinline, cold)) static void store_few(float* p, vec x, int64_t left) {
    for (int64_t i = 0; i < left; i++) p[i] = x[i];
}

// As many of LANES as are left, with `rest` behind.
static inline vec load_part(const float* p, int64_t left, float rest) {
    return left >= LANES ? load(p) : load_few(p, left, rest);
}
static inline void store_part(float* p, vec x, int64_t left) {
    left >= LANES ? store(p, x) : store_few(p, x, left);
}

// Floats, 0 at first, from the beginning of a line of the cache on: a vector that lies in two lines costs twice.
class Floats {
    struct alignas(64) Line {
        float x[16];
    };
    std::vector<Line> lines;

   public:
    explicit Floats(int64_t n) : lines((n + 15) / 16) {}
    float* data() { return lines.data()->x; }
    float& operator[](int64_t i) { return data()[i]; }
    void clear() { std::fill(lines.begin(), lines.end(), Line{}); }
};

// A bfloat16: the upper half of a float32.
struct bfloat {
    uint16_t bits;
};

// To the nearest bfloat16, ties to even, as a float; NaN stays NaN.
static inline vec nearest(vec x) {
    const ints bits = (ints)x, up = (bits >> 16) & 1;
    return x != x ? x : (vec)((bits + (up + 0x7fff)) & (int32_t)0xffff0000);
}

__attribute__((noinline, cold)) static vec load_few(const bfloat* p, int64_t left, float rest) {
    vec x = splat(rest);
    for (int64_t i = 0; i < left; i++) {
        const uint32_t bits = (uint32_t)p[i].bits << 16;
        float value;
        std::memcpy(&value, &bits, sizeof value);
        x[i] = value;
    }
    return x;
}
__attribute__((noinline, cold)) static void store_few(bfloat* p, ints bits, int64_t left) {
    for (int64_t i = 0; i < left; i++) p[i].bits = (uint16_t)bits[i];
}

static inline vec load_part(const bfloat* p, int64_t left, float rest) {
    if (left < LANES) return load_few(p, left, rest);
    return (vec)(__builtin_convertvector(*(const loose_shorts*)p, ints) << 16);
}
static inline void store_part(bfloat* p, vec x, int64_t left) {
    const ints bits = (ints)nearest(x) >> 16;
    if (left < LANES) return store_few(p, bits, left);
    *(loose_shorts*)p = __builtin_convertvector(bits, shorts);
}

// What a product takes of numbers that are kept as T.
static inline vec operand(vec x, const float*) {
    return x;
}
static inline vec operand(vec x, const bfloat*) {
    return nearest(x);
}

// Parts of a vector.
typedef float vec8 __attribute__((vector_size(32)));
typedef float vec4 __attribute__((vector_size(16)));

// A vector of 16 as one of 8, its halves joined; one of 8 as it is.
template <typename Join>
static inline vec8 to_eight(vec x, Join join) {
    vec8 parts[LANES / 8];
    std::memcpy(parts, &x, sizeof x);
    return LANES == 8 ? parts[0] : join(parts[0], parts[LANES / 8 - 1]);
}

template <typename Join>
static inline vec4 to_four(vec x, Join join) {
    const vec8 h = to_eight(x, join);
    vec4 halves[2];
    std::memcpy(halves, &h, sizeof h);
    return join(halves[0], halves[1]);
}

static inline float sum(vec x) {
    const vec4 q = to_four(x, [](auto a, auto b) { return a + b; });
    return (q[0] + q[2]) + (q[1] + q[3]);
}

// The larger of two, or NaN where one of them is.
#define HIGHER(x, top) (((x) > (top)) | ((x) != (x)) ? (x) : (top))
static inline vec higher(vec x, vec top) {
    return HIGHER(x, top);
}

// The largest, or NaN where there is one.
static inline float highest(vec x) {
    const vec4 q = to_four(x, [](auto a, auto b) { return HIGHER(a, b); });
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
    for (int r = 0; r < 8; r++) h[r] = to_eight(x[r], join);
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

#ifdef __clang__
#define SHUFFLED(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLED(a, b, ...) __builtin_shuffle(a, b, ints{__VA_ARGS__})
#endif

// Each float and its neighbour in a pair, changed for each other.
static inline vec swapped(vec x) {
    return SHUFFLED(x, x, NEIGHBOURS);
}

// Pairs of neighbours as complex numbers: x times z, or times its conjugate.
static inline vec times(vec x, vec z, bool conjugate) {
    ints first;  // of each pair
    vec sign;
    for (int64_t i = 0; i < LANES; i++) {
        first[i] = i % 2 ? 0 : -1;
        sign[i] = (i % 2 == 0) != conjugate ? -1.0f : 1.0f;
    }
    const vec w = swapped(z);
    return x * (first ? z : w) + swapped(x) * ((first ? w : z) * sign);
}

// As many rows as a vector has floats, changed for columns: each pass interleaves those of either half.
static inline void transpose(vec* rows) {
    for (int64_t n = 1; n < LANES; n *= 2) {
        vec x[LANES];
        for (int64_t i = 0; i < LANES / 2; i++) {
            x[2 * i] = SHUFFLED(rows[i], rows[i + LANES / 2], LOWER_HALVES);
            x[2 * i + 1] = SHUFFLED(rows[i], rows[i + LANES / 2], UPPER_HALVES);
        }
        std::memcpy(rows, x, sizeof x);
    }
}
