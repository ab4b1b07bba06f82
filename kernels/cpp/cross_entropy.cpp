// The loss of every token with its statistics, and its gradient.
#include "vector.h"

// Of logits [rows, V] and their targets: -ln p of the target, ln Z, the largest magnitude of a logit, and, for the
// backward pass, the largest logit and the sum of e**(logit - largest).
extern "C" void cross_entropy_forward(const float* x, const int64_t* targets, int64_t rows, int64_t width, float* nll,
                                      float* log_z, float* magnitudes, float* tops, float* totals) {
    for (int64_t i = 0; i < rows; i++, x += width) {
        vec top = splat(-INFINITY), size = {}, total = {};
        for (int64_t k = 0; k < width; k += LANES) {
            top = higher(load_part(x + k, width - k, -INFINITY), top);
            size = higher(magnitude(load_part(x + k, width - k, 0.0f)), size);
        }
        tops[i] = highest(top);
        for (int64_t k = 0; k < width; k += LANES)
            total += exp_of_negative(load_part(x + k, width - k, -INFINITY) - tops[i]);
        totals[i] = sum(total);
        log_z[i] = tops[i] + std::log(totals[i]);
        nll[i] = targets[i] >= 0 && targets[i] < width ? log_z[i] - x[targets[i]] : NAN;
        magnitudes[i] = highest(size);
    }
}

// d_x = p (d_nll + d_log_z), less d_nll at the target. Either may be null for 0.
extern "C" void cross_entropy_backward(const float* x, const int64_t* targets, const float* tops, const float* totals,
                                       const float* d_nll, const float* d_log_z, int64_t rows, int64_t width,
                                       float* d_x) {
    for (int64_t i = 0; i < rows; i++, x += width, d_x += width) {
        const float at_target = d_nll == nullptr ? 0.0f : d_nll[i],
                    all = at_target + (d_log_z == nullptr ? 0.0f : d_log_z[i]);
        const float factor = all / totals[i];
        for (int64_t k = 0; k < width; k += LANES)
            store_part(d_x + k, exp_of_negative(load_part(x + k, width - k, 0.0f) - tops[i]) * factor, width - k);
        if (targets[i] >= 0 && targets[i] < width) d_x[targets[i]] -= at_target;
    }
}
