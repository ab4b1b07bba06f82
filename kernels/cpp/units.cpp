// Norms, GELU and statistics of the residual stream, each in one pass over memory.
#include <algorithm>
#include <vector>

#include "vector.h"

namespace {

// The area under the normal density left of x, and e**(-x**2 / 2). 7.1.26 of Abramowitz and Stegun, off by 8e-8 at
// most.
struct Normal {
    vec area, bell;
    explicit Normal(vec x) {
        const vec z = magnitude(x) * 0.70710678f;
        bell = exp_of_negative(-z * z);
        const vec t = 1.0f / (1.0f + 0.3275911f * z);
        vec y = splat(1.061405429f);
        y = y * t - 1.453152027f;
        y = y * t + 1.421413741f;
        y = y * t - 0.284496736f;
        y = y * t + 0.254829592f;
        const vec tail = 0.5f * y * t * bell;
        area = x < 0.0f ? tail : 1.0f - tail;
    }
};

constexpr float NOTHING[LANES] = {};

// y gain + shift, or + 0 where no shift is given. Both in one operation, with the same bits wherever this is inlined: GCC
// joins a product and a sum only if no branch is between them, so that what branches comes first.
vec fused(vec y, vec gain, const float* shift, int64_t at, int64_t left) {
    const vec moved = load_part(shift == nullptr ? NOTHING : shift + at, left, 0.0f);
    return y * gain + moved;
}

float mean(const float* x, int64_t width) {
    vec total = {};
    for (int64_t k = 0; k < width; k += LANES) total += load_part(x + k, width - k, 0.0f);
    return sum(total) / width;
}

}  // namespace

// GELU of rows, of which read(at, k) has what is at + k numbers on; and the largest of each column.
template <typename T, typename Read>
static void gelu_of(Read read, int64_t rows, int64_t width, T* out, float* tops) {
    for (int64_t k = 0; k < width; k++) tops[k] = -INFINITY;
    for (int64_t at = 0; at < rows * width; at += width)
        for (int64_t k = 0; k < width; k += LANES) {
            const vec x = read(at, k), y = x * Normal(x).area;
            store_part(out + at + k, y, width - k);
            store_part(tops + k, higher(y, load_part(tops + k, width - k, 0.0f)), width - k);
        }
}

static vec slope(vec x, const Normal& normal) {
    return normal.area + x * normal.bell * 0.39894228f;
}

template <typename T>
static void gelu_slopes(const T* x, const T* d_out, int64_t count, T* d_x) {
    for (int64_t i = 0; i < count; i += LANES) {
        const vec v = load_part(x + i, count - i, 0.0f), d = load_part(d_out + i, count - i, 0.0f);
        store_part(d_x + i, d * slope(v, Normal(v)), count - i);
    }
}

// tops: [N, F], the largest of each column of x [N, rows, F] after GELU; NaN where there is a NaN. bf16: of x and out.
extern "C" void gelu_forward(int64_t bf16, const void* x, int64_t runs, int64_t rows, int64_t width, void* out,
                             float* tops) {
    const auto run = [&]<typename T>(const T* from, T* to) {
        const int64_t count = rows * width;
        for (int64_t n = 0; n < runs; n++, from += count, to += count, tops += width)
            gelu_of([&](int64_t at, int64_t k) { return load_part(from + at + k, width - k, 0.0f); }, rows, width, to,
                    tops);
    };
    bf16 ? run((const bfloat*)x, (bfloat*)out) : run((const float*)x, (float*)out);
}

extern "C" void gelu_backward(int64_t bf16, const void* x, const void* d_out, int64_t count, void* d_x) {
    if (bf16)
        gelu_slopes((const bfloat*)x, (const bfloat*)d_out, count, (bfloat*)d_x);
    else
        gelu_slopes((const float*)x, (const float*)d_out, count, (float*)d_x);
}

namespace {

// Sums over rows of what gain and shift of a run get, in parts of some rows, since rounding grows with the number of
// terms.
struct Sums {
    static constexpr int64_t ROWS = 32;
    const int64_t width;
    std::vector<float> gain, shift, gain_part, shift_part;  // whole vectors
    explicit Sums(int64_t width) : width(width), gain(width + LANES), shift(gain), gain_part(gain), shift_part(gain) {}

    // After row m of so many; d_gain and d_shift may be null.
    void row_ends(int64_t m, int64_t rows, float* d_gain, float* d_shift) {
        if ((m + 1) % ROWS && m + 1 < rows) return;
        for (int64_t k = 0; k < width; k++) {
            gain[k] += gain_part[k], gain_part[k] = 0.0f;
            shift[k] += shift_part[k], shift_part[k] = 0.0f;
        }
        if (m + 1 < rows) return;
        if (d_gain != nullptr) std::copy_n(gain.data(), width, d_gain);
        if (d_shift != nullptr) std::copy_n(shift.data(), width, d_shift);
        std::fill(gain.begin(), gain.end(), 0.0f);
        std::fill(shift.begin(), shift.end(), 0.0f);
    }
};

void add(float* sums, vec x) {
    store(sums, load(sums) + x);
}

}  // namespace

// The units of an MLP. x [N, rows, F]: its first product, to which the bias [N, F] is added in place where it is not
// null. out: GELU of that; tops as in gelu_forward.
extern "C" void bias_gelu_forward(float* x, const float* bias, int64_t runs, int64_t rows, int64_t width, float* out,
                                  float* tops) {
    for (int64_t n = 0; n < runs; n++, x += rows * width, out += rows * width, tops += width) {
        const float* own = bias == nullptr ? nullptr : bias + n * width;
        const auto moved = [&](int64_t at, int64_t k) {
            vec v = load_part(x + at + k, width - k, 0.0f);
            if (own != nullptr) store_part(x + at + k, v += load_part(own + k, width - k, 0.0f), width - k);
            return v;
        };
        gelu_of(moved, rows, width, out, tops);
    }
}

// d: the gradient at out, which becomes that at x, in place. out: GELU of x once more. d_bias may be null.
extern "C" void bias_gelu_backward(const float* x, float* d, int64_t runs, int64_t rows, int64_t width, float* out,
                                   float* d_bias) {
    Sums sums(width);
    float* s = sums.shift_part.data();
    for (int64_t n = 0; n < runs; n++)
        for (int64_t m = 0; m < rows; m++, x += width, d += width, out += width) {
            for (int64_t k = 0; k < width; k += LANES) {
                const vec v = load_part(x + k, width - k, 0.0f);
                const Normal normal(v);
                const vec d_x = load_part(d + k, width - k, 0.0f) * slope(v, normal);
                store_part(out + k, v * normal.area, width - k);
                store_part(d + k, d_x, width - k);
                add(s + k, d_x);
            }
            sums.row_ends(m, rows, nullptr, d_bias == nullptr ? nullptr : d_bias + n * width);
        }
}

// LayerNorm of x [N, M, width], or RMSNorm where it is not `centred`, with gain and shift [N, width], either of which
// may be null. centres, inverses: mean and 1 / std of each row, for the backward pass.
extern "C" void norm_forward(const float* x, int64_t runs, int64_t rows, int64_t width, float eps, int64_t centred,
                             const float* gain, const float* shift, float* out, float* centres, float* inverses) {
    for (int64_t i = 0; i < runs * rows; i++, x += width, out += width) {
        const float centre = centred ? mean(x, width) : 0.0f;
        vec squares = {};
        for (int64_t k = 0; k < width; k += LANES) {
            const vec apart = load_part(x + k, width - k, centre) - centre;
            squares += apart * apart;
        }
        const float variance = sum(squares) / width;
        // Of a variance past float32 PyTorch's LayerNorm makes NaN (0 of some: one large number alone), its RMSNorm 0.
        const float inverse = centred && variance == INFINITY ? NAN : 1.0f / std::sqrt(variance + eps);
        const int64_t own = i / rows * width;
        for (int64_t k = 0; k < width; k += LANES) {
            vec y = (load_part(x + k, width - k, 0.0f) - centre) * inverse;
            if (gain != nullptr) y = fused(y, load_part(gain + own + k, width - k, 0.0f), shift, own + k, width - k);
            store_part(out + k, y, width - k);
        }
        centres[i] = centre, inverses[i] = inverse;
    }
}

// d_gain, d_shift: null where there are none.
extern "C" void norm_backward(const float* x, const float* centres, const float* inverses, const float* d_out,
                              int64_t runs, int64_t rows, int64_t width, int64_t centred, const float* gain, float* d_x,
                              float* d_gain, float* d_shift) {
    std::vector<float> ys(width + LANES), ds(width + LANES), gains(width + LANES, 1.0f);
    Sums sums(width);
    float *y = ys.data(), *d = ds.data(), *g = sums.gain_part.data(), *s = sums.shift_part.data();
    for (int64_t n = 0; n < runs; n++) {
        if (gain != nullptr) std::copy_n(gain + n * width, width, gains.data());
        for (int64_t m = 0; m < rows; m++, x += width, d_out += width, d_x += width) {
            const float centre = centres[n * rows + m], inverse = inverses[n * rows + m];
            for (int64_t k = 0; k < width; k += LANES) {
                const vec of_out = load_part(d_out + k, width - k, 0.0f),
                          of_x = (load_part(x + k, width - k, centre) - centre) * inverse;
                store(y + k, of_x);
                store(d + k, of_out * load(&gains[k]));
                add(g + k, of_out * of_x);
                add(s + k, of_out);
            }
            sums.row_ends(m, rows, d_gain == nullptr ? nullptr : d_gain + n * width,
                          d_shift == nullptr ? nullptr : d_shift + n * width);
            vec both = {};
            for (int64_t k = 0; k < width; k += LANES) both += load(y + k) * load(d + k);
            const float along = sum(both) / width, middle = centred ? mean(d, width) : 0.0f;
            for (int64_t k = 0; k < width; k += LANES)
                store_part(d_x + k, (load(d + k) - middle - load(y + k) * along) * inverse, width - k);
        }
    }
}

// y gain + shift, as the end of a norm has it, of another norm's y [N, M, width].
extern "C" void affine_forward(const float* y, int64_t runs, int64_t rows, int64_t width, const float* gain,
                               const float* shift, float* out) {
    for (int64_t i = 0; i < runs * rows; i++, y += width, out += width) {
        const int64_t own = i / rows * width;
        for (int64_t k = 0; k < width; k += LANES)
            store_part(out + k,
                       fused(load_part(y + k, width - k, 0.0f), load_part(gain + own + k, width - k, 0.0f), shift,
                             own + k, width - k),
                       width - k);
    }
}

extern "C" void affine_backward(const float* y, const float* d_out, int64_t runs, int64_t rows, int64_t width,
                                const float* gain, float* d_y, float* d_gain, float* d_shift) {
    Sums sums(width);
    float *g = sums.gain_part.data(), *s = sums.shift_part.data();
    for (int64_t n = 0; n < runs; n++)
        for (int64_t m = 0; m < rows; m++, y += width, d_out += width, d_y += width) {
            for (int64_t k = 0; k < width; k += LANES) {
                const vec d = load_part(d_out + k, width - k, 0.0f);
                add(g + k, d * load_part(y + k, width - k, 0.0f));
                add(s + k, d);
                store_part(d_y + k, d * load_part(gain + n * width + k, width - k, 0.0f), width - k);
            }
            sums.row_ends(m, rows, d_gain + n * width, d_shift == nullptr ? nullptr : d_shift + n * width);
        }
}

// Mean, root mean square, largest and least of each of x [N, count], as [N, 4].
extern "C" void describe(const float* x, int64_t runs, int64_t count, float* out) {
    for (int64_t n = 0; n < runs; n++, x += count, out += 4) {
        vec total[4] = {}, squares[4] = {}, most = splat(-INFINITY), least = splat(-INFINITY);
        for (int64_t i = 0; i < count; i += 4 * LANES)
            for (int64_t u = 0; u < 4 && i + u * LANES < count; u++) {
                const int64_t at = i + u * LANES, left = count - at;
                const vec v = load_part(x + at, left, 0.0f);
                total[u] += v;
                squares[u] += v * v;
                most = higher(load_part(x + at, left, -INFINITY), most);
                least = higher(-load_part(x + at, left, INFINITY), least);
            }
        out[0] = sum((total[0] + total[1]) + (total[2] + total[3])) / count;
        out[1] = std::sqrt(sum((squares[0] + squares[1]) + (squares[2] + squares[3])) / count);
        out[2] = highest(most);
        out[3] = -highest(least);
    }
}
