// Rotation of queries and keys, and back, in the pass that splits them from values.
#include <cstring>
#include <vector>

#include "vector.h"

struct Sizes {
    int64_t runs, rows, places, heads, width;
};

struct Strides {
    int64_t run, row, head, place;
};

// Heads of one place, pairs of neighbouring features turned by the complex numbers of a table [K / 2]: x c + swapped x
// s.
template <typename T>
static void turn(const T* x, int64_t stride, const float* c, const float* s, int64_t heads, int64_t width, T* out) {
    for (int64_t h = 0; h < heads; h++)
        for (int64_t k = 0; k < width; k += LANES) {
            const vec v = load_part(x + h * stride + k, width - k, 0.0f);
            const vec y = v * load_part(c + k, width - k, 0.0f) + swapped(v) * load_part(s + k, width - k, 0.0f);
            store_part(out + h * width + k, y, width - k);
        }
}

// A table's real parts twice each, and its imaginary parts with the sign that each of a pair has; `back`: -1 turns
// back.
struct Table {
    std::vector<float> c, s;
    Table(const float* complex, int64_t count, float back) : c(count), s(count) {
        for (int64_t i = 0; i < count; i += 2) {
            c[i] = c[i + 1] = complex[i];
            s[i] = -complex[i + 1] * back;
            s[i + 1] = complex[i + 1] * back;
        }
    }
};

// x: three parts [N, B, T, H, K], with strides each; out: [N, B, T, 3, H, K], the first two turned by tables [N, T, K /
// 2].
template <typename T>
static void rotated(const Sizes& s, const T* const* x, const Strides* at, const float* const* tables, float back,
                    T* out) {
    const int64_t count = s.runs * s.places * s.width;
    const Table of[2] = {Table(tables[0], count, back), Table(tables[1], count, back)};
    for (int64_t n = 0; n < s.runs; n++)
        for (int64_t b = 0; b < s.rows; b++)
            for (int64_t i = 0; i < s.places; i++)
                for (int64_t g = 0; g < 3; g++, out += s.heads * s.width) {
                    const T* from = x[g] + n * at[g].run + b * at[g].row + i * at[g].place;
                    const int64_t place = (n * s.places + i) * s.width;
                    if (g < 2)
                        turn(from, at[g].head, &of[g].c[place], &of[g].s[place], s.heads, s.width, out);
                    else
                        for (int64_t h = 0; h < s.heads; h++)
                            std::memcpy(out + h * s.width, from + h * at[g].head, s.width * sizeof(T));
                }
}

extern "C" void rotate(int64_t bf16, const Sizes* s, const void* const* x, const Strides* at,
                       const float* const* tables, int64_t back, void* out) {
    const float sign = back ? -1.0f : 1.0f;
    if (bf16)
        rotated(*s, (const bfloat* const*)x, at, tables, sign, (bfloat*)out);
    else
        rotated(*s, (const float* const*)x, at, tables, sign, (float*)out);
}
