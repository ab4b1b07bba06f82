// Passes over all weights, gradients or updates of a run: statistics by segment, and AdamW.
#include "vector.h"

struct Segment {
    int64_t start, stop;
};

// Of x [N, P]: norms and, unless null, largest magnitudes [N, S], and counts [N] of what is not finite and of zeros.
extern "C" void segment_statistics(const float* x, int64_t runs, int64_t columns, const Segment* segments,
                                   int64_t count, float* norms, float* largests, int64_t* nonfinite, int64_t* zeros) {
    for (int64_t n = 0; n < runs; n++, x += columns) {
        int64_t unknown = 0, nothing = 0;
        for (int64_t g = 0; g < count; g++) {
            const int64_t stop = segments[g].stop;
            vec squares[4] = {}, top = {};
            ints finite = {}, none = {};
            for (int64_t i = segments[g].start; i < stop; i += 4 * LANES)
                for (int64_t u = 0; u < 4 && i + u * LANES < stop; u++) {
                    const int64_t at = i + u * LANES;
                    const vec v = load_part(x + at, stop - at, 0.0f);
                    squares[u] += v * v;
                    if (largests != nullptr) top = higher(magnitude(v), top);
                    if (zeros != nullptr) {
                        finite += (v - v) == 0.0f;  // -1 in each lane that is
                        none += v == 0.0f;
                    }
                }
            const int64_t here = n * count + g, size = stop - segments[g].start,
                          lanes = (size + LANES - 1) / LANES * LANES;
            norms[here] = std::sqrt(sum((squares[0] + squares[1]) + (squares[2] + squares[3])));
            if (largests != nullptr) largests[here] = highest(top);
            if (zeros != nullptr) {
                for (int64_t l = 0; l < LANES; l++) unknown += finite[l], nothing -= none[l];
                unknown += lanes, nothing -= lanes - size;  // lanes behind the last are finite, and 0
            }
        }
        if (zeros != nullptr) nonfinite[n] = unknown, zeros[n] = nothing;
    }
}

// Means over each segment of g**2 / max(v, least), [N, S].
extern "C" void moment_ratios(const float* g, const float* v, int64_t runs, int64_t columns, const Segment* segments,
                              int64_t count, const float* least, float* means) {
    for (int64_t n = 0; n < runs; n++, g += columns, v += columns)
        for (int64_t k = 0; k < count; k++) {
            const int64_t stop = segments[k].stop;
            vec total[2] = {};
            for (int64_t i = segments[k].start; i < stop; i += 2 * LANES)
                for (int64_t u = 0; u < 2 && i + u * LANES < stop; u++) {
                    const int64_t at = i + u * LANES;
                    const vec grad = load_part(g + at, stop - at, 0.0f), second = load_part(v + at, stop - at, 1.0f);
                    total[u] += grad / (second < least[n] ? splat(least[n]) : second) * grad;
                }
            means[n * count + k] = sum(total[0] + total[1]) / (stop - segments[k].start);
        }
}

// Where a product and a sum become one operation is written down, so that no compiler's choice decides on a last bit.
static inline float fused(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}

// Both moments [N, P] in place, with shares of each run.
extern "C" void adam_average(const float* __restrict grads, int64_t runs, int64_t columns, const float* first,
                             const float* second, float* __restrict m, float* __restrict v) {
    for (int64_t n = 0; n < runs; n++) {
        const float a = first[n], b = second[n];
        for (int64_t i = n * columns; i < (n + 1) * columns; i++) {
            const float g = grads[i];
            m[i] = fused(a, g - m[i], m[i]);
            v[i] = fused(b, fused(g, g, -v[i]), v[i]);
        }
    }
}

// update [N, P]. factor: [N, P], or null for 1.
extern "C" void adam_update(const float* __restrict m, const float* __restrict v, int64_t runs, int64_t columns,
                            const float* __restrict factor, const float* eps, const float* rate,
                            float* __restrict update) {
    for (int64_t n = 0; n < runs; n++) {
        const float e = eps[n], r = rate[n];
        for (int64_t i = n * columns; i < (n + 1) * columns; i++) {
            const float step = m[i] / (std::sqrt(v[i]) + e);
            update[i] = (factor == nullptr ? step : step * factor[i]) * r;
        }
    }
}
