// softmax(scale q k' + bias) v, head after head, with statistics: what is of places by places stays in a core's cache.
// T is the type of q, k, v, out and their gradients; all sums are float32. Of bfloat16, probabilities are rounded
// before they meet v and d out, slopes before they meet k, as the reference does.
#include <algorithm>
#include <limits>
#include <vector>

#include "vector.h"

namespace {

constexpr int64_t BLOCK = 8;       // queries at a time: as many sums as hide the time that an addition takes
constexpr float ALLOWED = -1e29f;  // a bias over it allows a key; what masks is -1e30 or less
constexpr float BEHIND = -3e38f;   // the score of columns that fill up a vector: under every other, and finite
constexpr float INF = std::numeric_limits<float>::infinity();

int64_t whole(int64_t n) {
    return (n + LANES - 1) / LANES * LANES;
}

struct Sizes {
    int64_t runs, rows, heads, places, width;
};

// How far apart runs, rows, heads and places are; neighbouring features are neighbours.
struct Strides {
    int64_t run, row, head, place;
    int64_t at(int64_t n, int64_t b, int64_t h) const { return n * run + b * row + h * head; }
};

// The head that comes after one; the last one itself.
struct Next {
    int64_t run, row, head;
    int64_t of(const Strides& at) const { return at.at(run, row, head); }
};

Next following(const Sizes& s, int64_t n, int64_t b, int64_t h) {
    const int64_t i = std::min((n * s.rows + b) * s.heads + h + 1, s.runs * s.rows * s.heads - 1);
    return {i / s.heads / s.rows, i / s.heads % s.rows, i % s.heads};
}

// Columns, in whole vectors, that some query of a block sees: all others are 0 and are not computed.
struct Span {
    int64_t first, stop;
};

// Statistics of queries, each [N, B, H, T]. masses: where regions are given.
struct Statistics {
    float *below, *top, *self, *distance, *masses[3];
};

// Places of which the attention is counted, bytes [T, S] of a run and a row, so far apart.
struct Region {
    const uint8_t* in;
    int64_t run, row;
};

struct Mask {
    const float* bias;  // [T, S] of a run and a row
    int64_t run, row;
    const Span* spans;  // [blocks] of a run and a row
    int64_t span_run, span_row;
    const float* keep;  // [N, B, H, T, S], or null
};

struct Inputs {
    const void *q, *k, *v;
    const float* scale;
    Strides at_q, at_k, at_v;
};

// Products of one head whose features fill F floats a row (a multiple of a vector; 0: known when it runs).
template <int64_t F>
struct Head {
    const int64_t places, width, columns, f;
    explicit Head(const Sizes& s)
        : places(s.places), width(s.width), columns(whole(s.places)), f(F ? F : whole(s.width)) {}

    template <typename T>
    void read(const T* x, int64_t stride, float factor, float* into) const {
        for (int64_t i = 0; i < places; i++)
            for (int64_t k = 0; k < f; k += LANES)
                store(into + i * f + k, load_part(x + i * stride + k, width - k, 0.0f) * factor);
    }

    // Heads lie apart, a few floats of each place, so that memory is not read ahead of a loop but for this. The places of
    // a block, of a head that comes next.
    template <bool WRITE, typename T>
    void ahead(const T* x, int64_t stride, int64_t start) const {
        for (int64_t i = start; i < std::min(start + BLOCK, places); i++)
            for (int64_t k = 0; k < width; k += 64 / (int64_t)sizeof(T)) __builtin_prefetch(x + i * stride + k, WRITE, 2);
    }

    template <typename T>
    void write(const float* rows, int64_t count, float factor, T* x, int64_t stride) const {
        for (int64_t i = 0; i < count; i++)
            for (int64_t k = 0; k < f; k += LANES)
                store_part(x + i * stride + k, load(rows + i * f + k) * factor, width - k);
    }

    void turn(const float* x, float* out) const {  // [columns, f] to [f, columns]
        for (int64_t i = 0; i < columns; i += LANES)
            for (int64_t k = 0; k < f; k += LANES) {
                vec rows[LANES];
                for (int64_t r = 0; r < LANES; r++) rows[r] = load(x + (i + r) * f + k);
                transpose(rows);
                for (int64_t r = 0; r < LANES; r++) store(out + (k + r) * columns + i, rows[r]);
            }
    }

    // Of a product of rows a[BLOCK, f] and columns b[f, columns], V vectors of each row.
    template <int64_t V>
    void vectors(const float* a, const float* b, float* out) const {
        const int64_t w = F ? F : width, c = columns;
        vec sums[BLOCK][V] = {};
        for (int64_t k = 0; k < w; k++)
            for (int64_t u = 0; u < V; u++) {
                const vec x = load(b + k * c + u * LANES);
                for (int64_t r = 0; r < BLOCK; r++) sums[r][u] += a[r * f + k] * x;
            }
        for (int64_t r = 0; r < BLOCK; r++)
            for (int64_t u = 0; u < V; u++) store(out + r * c + u * LANES, sums[r][u]);
    }

    // out[BLOCK, columns] = a[BLOCK, f] b[f, columns], in a span.
    void rows_by_columns(const float* a, const float* b, Span span, float* out) const {
        int64_t j = span.first;
        for (; j + 2 * LANES <= span.stop; j += 2 * LANES) vectors<2>(a, b + j, out + j);
        if (j < span.stop) vectors<1>(a, b + j, out + j);
    }

    // out[BLOCK, f] = a[BLOCK, columns] b[places, f], over the columns of a span.
    void rows_by_rows(const float* a, const float* b, Span span, float* out) const {
        const int64_t c = columns, stop = std::min(span.stop, places);
        for (int64_t k = 0; k < f; k += LANES) {
            vec sums[BLOCK] = {};
            for (int64_t j = span.first; j < stop; j++) {
                const vec x = load(b + j * f + k);
                for (int64_t r = 0; r < BLOCK; r++) sums[r] += a[r * c + j] * x;
            }
            for (int64_t r = 0; r < BLOCK; r++) store(out + r * f + k, sums[r]);
        }
    }

    // out[places, f] += a[BLOCK, columns]' b[BLOCK, f], over the columns of a span.
    void add_transposed(const float* a, const float* b, Span span, float* out) const {
        const int64_t c = columns, stop = std::min(span.stop, places);
        for (int64_t k = 0; k < f; k += LANES) {
            vec x[BLOCK];
            for (int64_t r = 0; r < BLOCK; r++) x[r] = load(b + r * f + k);
            for (int64_t j = span.first; j < stop; j++) {
                vec even = load(out + j * f + k), odd = {};
                for (int64_t r = 0; r < BLOCK; r += 2) {
                    even += a[r * c + j] * x[r];
                    odd += a[(r + 1) * c + j] * x[r + 1];
                }
                store(out + j * f + k, even + odd);
            }
        }
    }
};

void multiply(float* row, const float* by, int64_t places, Span span) {
    for (int64_t j = span.first; j < std::min(span.stop, places); j++) row[j] *= by[j];
}

// Scores plus bias in place. Gives the largest of those that are numbers, of each lane, and the lanes with a NaN.
vec add_bias(float* scores, const float* bias, int64_t places, Span span, ints* unknown) {
    vec top = splat(-INF);
    for (int64_t j = span.first; j < span.stop; j += LANES) {
        const vec x = load(scores + j) + load_part(bias + j, places - j, BEHIND);
        store(scores + j, x);
        top = x > top ? x : top;
        *unknown |= x != x;
    }
    return top;
}

template <typename T>
void round(float* row, float factor, Span span) {
    for (int64_t j = span.first; j < span.stop; j += LANES)
        store(row + j, operand(load(row + j) * factor, (const T*)nullptr));
}

template <typename T, int64_t F>
void forward(const Sizes& s, const Inputs& in, const Mask& mask, T* out, const Strides& at_out, float* tops,
             float* totals, const Statistics* statistics, const Region* regions) {
    const Head<F> head(s);
    const int64_t t = s.places, c = head.columns, f = head.f;
    std::vector<float> q((t + BLOCK) * f), k(c * f), v(t * f), turned(f * c), scores(BLOCK * c), result(BLOCK * f);
    vec lane;
    for (int64_t i = 0; i < LANES; i++) lane[i] = (float)i;
    int64_t place = 0;
    for (int64_t n = 0; n < s.runs; n++)
        for (int64_t b = 0; b < s.rows; b++) {
            const float* bias = mask.bias + n * mask.run + b * mask.row;
            const Span* spans = mask.spans + n * mask.span_run + b * mask.span_row;
            for (int64_t h = 0; h < s.heads; h++) {
                head.read((const T*)in.q + in.at_q.at(n, b, h), in.at_q.place, in.scale[n], q.data());
                head.read((const T*)in.k + in.at_k.at(n, b, h), in.at_k.place, 1.0f, k.data());
                head.read((const T*)in.v + in.at_v.at(n, b, h), in.at_v.place, 1.0f, v.data());
                head.turn(k.data(), turned.data());
                const Next next = following(s, n, b, h);
                for (int64_t start = 0; start < t; start += BLOCK) {
                    const Span span = spans[start / BLOCK];
                    const int64_t count = std::min(BLOCK, t - start);
                    head.template ahead<false>((const T*)in.q + next.of(in.at_q), in.at_q.place, start);
                    head.rows_by_columns(&q[start * f], turned.data(), span, scores.data());
                    head.template ahead<false>((const T*)in.k + next.of(in.at_k), in.at_k.place, start);
                    vec lanes[BLOCK] = {}, total[BLOCK] = {}, below[BLOCK] = {}, far[BLOCK] = {};
                    ints unknown[BLOCK] = {};
                    for (int64_t r = 0; r < count; r++)
                        lanes[r] = add_bias(&scores[r * c], bias + (start + r) * t, t, span, &unknown[r]);
                    const vec8 most = eight_largest(lanes);
                    head.template ahead<false>((const T*)in.v + next.of(in.at_v), in.at_v.place, start);
                    for (int64_t r = 0; r < count; r++) {
                        vec sums[3] = {};
                        for (int64_t j = span.first; j < span.stop; j += LANES) {
                            const vec under = load(&scores[r * c + j]) - most[r], e = exp_of_negative(under);
                            store(&scores[r * c + j], e);
                            sums[0] += e;
                            sums[1] += under * e;
                            sums[2] += magnitude(lane + (float)(j - start - r)) * e;
                        }
                        total[r] = sums[0], below[r] = sums[1], far[r] = sums[2];
                    }
                    const vec8 all = eight_sums(total), inverse = 1.0f / all;
                    head.template ahead<true>(out + at_out.at(n, b, h), at_out.place, start);
                    vec8 mean_below = {}, mean_far = {};
                    if (statistics != nullptr)
                        mean_below = eight_sums(below) * inverse, mean_far = eight_sums(far) * inverse;
                    for (int64_t r = 0; r < count; r++, place++) {
                        float* row = &scores[r * c];
                        const int64_t i = start + r;
                        tops[place] = most[r];
                        totals[place] = all[r];
                        if (statistics != nullptr) {
                            statistics->below[place] = mean_below[r];
                            statistics->top[place] = all[r] != all[r] && any(unknown[r]) ? all[r] : most[r];
                            statistics->self[place] = i >= span.first && i < span.stop ? row[i] * inverse[r] : 0.0f;
                            statistics->distance[place] = mean_far[r];
                            for (int64_t g = 0; regions != nullptr && g < 3; g++) {
                                const uint8_t* inside = regions[g].in + n * regions[g].run + b * regions[g].row + i * t;
                                float mass = 0.0f;
                                for (int64_t j = span.first; j < std::min(span.stop, t); j++)
                                    mass += inside[j] ? row[j] : 0.0f;
                                statistics->masses[g][place] = mass * inverse[r];
                            }
                        }
                        if (mask.keep != nullptr) multiply(row, mask.keep + place * t, t, span);
                        round<T>(row, inverse[r], span);
                    }
                    head.rows_by_rows(scores.data(), v.data(), span, result.data());
                    head.write(result.data(), count, 1.0f, out + at_out.at(n, b, h) + start * at_out.place,
                               at_out.place);
                }
            }
        }
}

template <typename T, int64_t F>
void backward(const Sizes& s, const Inputs& in, const Mask& mask, const float* tops, const float* totals,
              const T* d_out, const Strides& at_out, T* d_q, T* d_k, T* d_v, const Strides& at) {
    const Head<F> head(s);
    const int64_t t = s.places, c = head.columns, f = head.f;
    std::vector<float> q((t + BLOCK) * f), k(c * f), v(c * f), d((t + BLOCK) * f), k_turned(f * c), v_turned(f * c);
    std::vector<float> scores(BLOCK * c), slopes(BLOCK * c), result(BLOCK * f), d_keys(t * f), d_values(t * f);
    int64_t place = 0;
    for (int64_t n = 0; n < s.runs; n++)
        for (int64_t b = 0; b < s.rows; b++) {
            const float* bias = mask.bias + n * mask.run + b * mask.row;
            const Span* spans = mask.spans + n * mask.span_run + b * mask.span_row;
            for (int64_t h = 0; h < s.heads; h++) {
                head.read((const T*)in.q + in.at_q.at(n, b, h), in.at_q.place, in.scale[n], q.data());
                head.read((const T*)in.k + in.at_k.at(n, b, h), in.at_k.place, 1.0f, k.data());
                head.read((const T*)in.v + in.at_v.at(n, b, h), in.at_v.place, 1.0f, v.data());
                head.read(d_out + at_out.at(n, b, h), at_out.place, 1.0f, d.data());
                head.turn(k.data(), k_turned.data());
                head.turn(v.data(), v_turned.data());
                std::fill(d_keys.begin(), d_keys.end(), 0.0f);
                std::fill(d_values.begin(), d_values.end(), 0.0f);
                const int64_t offset = at.at(n, b, h);
                const Next next = following(s, n, b, h);
                for (int64_t start = 0; start < t; start += BLOCK) {
                    const Span span = spans[start / BLOCK];
                    const int64_t count = std::min(BLOCK, t - start);
                    head.template ahead<false>((const T*)in.q + next.of(in.at_q), in.at_q.place, start);
                    head.rows_by_columns(&q[start * f], k_turned.data(), span, scores.data());
                    head.template ahead<false>((const T*)in.k + next.of(in.at_k), in.at_k.place, start);
                    head.rows_by_columns(&d[start * f], v_turned.data(), span, slopes.data());
                    head.template ahead<false>((const T*)in.v + next.of(in.at_v), in.at_v.place, start);
                    vec total[BLOCK] = {};
                    for (int64_t r = 0; r < count; r++) {
                        float *row = &scores[r * c], *slope = &slopes[r * c];
                        const float top = tops[place + r], inverse = 1.0f / totals[place + r];
                        if (mask.keep != nullptr) multiply(slope, mask.keep + (place + r) * t, t, span);
                        vec sum = {};
                        for (int64_t j = span.first; j < span.stop; j += LANES) {
                            const vec x = load(row + j) + load_part(bias + (start + r) * t + j, t - j, BEHIND);
                            const vec p = exp_of_negative(x - top) * inverse;
                            store(row + j, p);
                            sum += p * load(slope + j);
                        }
                        total[r] = sum;
                    }
                    head.template ahead<false>(d_out + next.of(at_out), at_out.place, start);
                    const vec8 mean = eight_sums(total);
                    for (int64_t r = 0; r < count; r++, place++) {
                        float *row = &scores[r * c], *slope = &slopes[r * c];
                        for (int64_t j = span.first; j < span.stop; j += LANES)
                            store(slope + j, load(row + j) * (load(slope + j) - mean[r]));
                        if (mask.keep != nullptr) multiply(row, mask.keep + place * t, t, span);
                        round<T>(row, 1.0f, span);
                    }
                    for (int64_t r = count; r < BLOCK; r++) {  // queries that are none
                        std::fill(&scores[r * c], &scores[r * c] + c, 0.0f);
                        std::fill(&slopes[r * c], &slopes[r * c] + c, 0.0f);
                    }
                    head.template ahead<true>(d_q + offset, at.place, start);
                    head.add_transposed(slopes.data(), &q[start * f], span, d_keys.data());
                    head.template ahead<true>(d_k + offset, at.place, start);
                    head.add_transposed(scores.data(), &d[start * f], span, d_values.data());
                    head.template ahead<true>(d_v + offset, at.place, start);
                    for (int64_t r = 0; r < count; r++) round<T>(&slopes[r * c], 1.0f, span);
                    head.rows_by_rows(slopes.data(), k.data(), span, result.data());
                    head.write(result.data(), count, in.scale[n], d_q + offset + start * at.place, at.place);
                }
                head.write(d_keys.data(), t, 1.0f, d_k + offset, at.place);
                head.write(d_values.data(), t, 1.0f, d_v + offset, at.place);
            }
        }
}

}  // namespace

// Spans of blocks [matrices, blocks] from biases [matrices, T, T].
extern "C" void attention_spans(const float* bias, int64_t matrices, int64_t places, Span* spans) {
    for (const float* end = bias + matrices * places * places; bias < end; bias += places * places)
        for (int64_t start = 0; start < places; start += BLOCK, spans++) {
            Span span = {places, 0};
            for (int64_t i = start; i < std::min(start + BLOCK, places); i++) {
                const float* row = bias + i * places;
                int64_t a = 0, b = places;
                while (b > 0 && row[b - 1] <= ALLOWED) b--;
                while (a < b && row[a] <= ALLOWED) a++;
                if (b == 0) b = places;  // nothing is allowed: a row of almost equal scores
                span = {std::min(span.first, a), std::max(span.stop, b)};
            }
            *spans = {span.first / LANES * LANES, whole(span.stop)};
        }
}

// bf16: whether q, k, v and out are, else float32. tops, totals: [N, B, H, T], for the backward pass; statistics and
// regions may be null.
extern "C" void attention_forward(int64_t bf16, const Sizes* s, const Inputs* in, const Mask* mask, void* out,
                                  const Strides* at_out, float* tops, float* totals, const Statistics* statistics,
                                  const Region* regions) {
    const auto run = [&]<typename T>(T* to) {
        const auto fn = s->width <= 16 ? forward<T, 16> : s->width <= 32 ? forward<T, 32> : forward<T, 0>;
        fn(*s, *in, *mask, to, *at_out, tops, totals, statistics, regions);
    };
    bf16 ? run((bfloat*)out) : run((float*)out);
}

// The gradients of q, k and v, all three with the strides `at`; probabilities are computed again.
extern "C" void attention_backward(int64_t bf16, const Sizes* s, const Inputs* in, const Mask* mask, const float* tops,
                                   const float* totals, const void* d_out, const Strides* at_out, void* d_q, void* d_k,
                                   void* d_v, const Strides* at) {
    const auto run = [&]<typename T>(const T* from) {
        const auto fn = s->width <= 16 ? backward<T, 16> : s->width <= 32 ? backward<T, 32> : backward<T, 0>;
        fn(*s, *in, *mask, tops, totals, from, *at_out, (T*)d_q, (T*)d_k, (T*)d_v, *at);
    };
    bf16 ? run((const bfloat*)d_out) : run((const float*)d_out);
}
