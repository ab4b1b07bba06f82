// softmax(scale q k' + mask) v, head after head, with statistics: what is of places by places stays in a core's cache.
// Queries and keys are rotated where they are read, their gradients rotated back where they are written.
// T is the type of qkv, out and their gradients; all sums are float32. Of bfloat16, probabilities are rounded
// before they meet v and d out, slopes before they meet k, as the reference does.
#include <limits>

#include "vector.h"

namespace {

constexpr int64_t BLOCK = 8;       // queries at a time: as many sums as hide the time that an addition takes
constexpr float ALLOWED = -1e29f;  // a bias over it allows a key; what masks is -1e30 or less
constexpr float BEHIND = -3e38f;   // the score of columns that fill up a vector: under every other, and finite
constexpr float INF = std::numeric_limits<float>::infinity();

int64_t whole(int64_t n) {
    return (n + LANES - 1) / LANES * LANES;
}

// The kernels go through heads, i from 0 on: those of one row follow each other.
struct Sizes {
    int64_t runs, rows, heads, places, width;
    int64_t all() const { return runs * rows * heads; }
    int64_t place(int64_t parts) const { return parts * heads * width; }  // how far apart places are
    // Where a head begins of [N, B, T, parts, H, K].
    int64_t at(int64_t i, int64_t parts) const { return (i / heads * places * parts * heads + i % heads) * width; }
    int64_t next(int64_t i, int64_t parts) const { return at(std::min(i + 1, all() - 1), parts); }
};

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

// qkv: [N, B, T, 3, H, K]. bias: what is added to it, [N, 3, H, K], or null. tables: what queries and keys are rotated
// by, pairs of features as complex numbers, [N, T, K / 2], or null.
struct Inputs {
    const void* qkv;
    const float *bias, *tables[2], *scale;
    const float* table(const Sizes& s, int64_t g, int64_t n) const {
        return g < 2 && tables[g] != nullptr ? tables[g] + n * s.places * s.width : nullptr;
    }
};

// Products of one head whose features fill F floats a row (a multiple of a vector; 0: known when it runs).
template <int64_t F>
struct Head {
    const int64_t places, width, columns, f;
    explicit Head(const Sizes& s)
        : places(s.places), width(s.width), columns(whole(s.places)), f(F ? F : whole(s.width)) {}

    // Part g of a head of qkv, with bias and rotated, times a factor.
    template <typename T>
    void read(const Sizes& s, const Inputs& in, int64_t i, int64_t g, float factor, float* into) const {
        const int64_t n = i / s.heads / s.rows, step = s.place(3);
        const T* x = (const T*)in.qkv + s.at(i, 3) + g * s.place(1);
        const float* bias = in.bias == nullptr ? nullptr : in.bias + (n * 3 + g) * s.place(1) + i % s.heads * width;
        read(x, step, bias, in.table(s, g, n), factor, into);
    }

    template <typename T>
    void read(const T* x, int64_t step, const float* bias, const float* table, float factor, float* into) const {
        for (int64_t i = 0; i < places; i++)
            for (int64_t k = 0; k < f; k += LANES) {
                vec y = load_part(x + i * step + k, width - k, 0.0f);
                if (bias != nullptr) y += load_part(bias + k, width - k, 0.0f);
                if (table != nullptr) y = times(y, load_part(table + i * width + k, width - k, 0.0f), false);
                store(into + i * f + k, operand(y, x) * factor);
            }
    }

    // Rows times a factor, rotated back; what they come to is added to `sums`. table and sums may be null.
    template <typename T>
    void write(const float* rows, int64_t count, float factor, const float* table, float* sums, T* x,
               int64_t step) const {
        for (int64_t k = 0; k < f; k += LANES) {
            vec sum = {};
            for (int64_t i = 0; i < count; i++) {
                vec y = load(rows + i * f + k) * factor;
                if (table != nullptr) y = times(y, load_part(table + i * width + k, width - k, 0.0f), true);
                sum += y;
                store_part(x + i * step + k, y, width - k);
            }
            if (sums != nullptr) store_part(sums + k, load_part(sums + k, width - k, 0.0f) + sum, width - k);
        }
    }

    // Asks for a block's places of a head before they are read or written: it has but a few floats of each, so that the
    // processor does not do so by itself. Always inlined, as GCC leaves out calls of a function that does nothing else.
    template <typename T>
    __attribute__((always_inline)) void prefetch(const T* x, int64_t step, int64_t start, bool write) const {
        for (int64_t i = start; i < std::min(start + BLOCK, places); i++)
            for (int64_t k = 0; k < width; k += 64 / (int64_t)sizeof(T))
                write ? __builtin_prefetch(x + i * step + k, 1, 2) : __builtin_prefetch(x + i * step + k, 0, 2);
    }

    void transpose(const float* x, float* out) const {  // [columns, f] to [f, columns]
        for (int64_t i = 0; i < columns; i += LANES)
            for (int64_t k = 0; k < f; k += LANES) {
                vec rows[LANES];
                for (int64_t r = 0; r < LANES; r++) rows[r] = load(x + (i + r) * f + k);
                ::transpose(rows);
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
void forward(const Sizes& s, const Inputs& in, const Mask& mask, T* out, float* tops, float* totals,
             const Statistics* statistics, const Region* regions) {
    const Head<F> head(s);
    const int64_t t = s.places, c = head.columns, f = head.f;
    Floats q((t + BLOCK) * f), k(c * f), v(t * f), turned(f * c), scores(BLOCK * c), result(BLOCK * f);
    vec lane;
    for (int64_t i = 0; i < LANES; i++) lane[i] = (float)i;
    for (int64_t at = 0, place = 0; at < s.all(); at++) {
        const int64_t n = at / s.heads / s.rows, b = at / s.heads % s.rows;
        const float* bias = mask.bias + n * mask.run + b * mask.row;
        const Span* spans = mask.spans + n * mask.span_run + b * mask.span_row;
        const T* next = (const T*)in.qkv + s.next(at, 3);
        head.template read<T>(s, in, at, 0, in.scale[n], q.data());
        head.template read<T>(s, in, at, 1, 1.0f, k.data());
        head.template read<T>(s, in, at, 2, 1.0f, v.data());
        head.transpose(k.data(), turned.data());
        for (int64_t start = 0; start < t; start += BLOCK) {
            const Span span = spans[start / BLOCK];
            const int64_t count = std::min(BLOCK, t - start);
            head.prefetch(next, s.place(3), start, false);
            head.rows_by_columns(&q[start * f], turned.data(), span, scores.data());
            head.prefetch(next + s.place(1), s.place(3), start, false);
            vec lanes[BLOCK] = {}, total[BLOCK] = {}, below[BLOCK] = {}, far[BLOCK] = {};
            ints unknown[BLOCK] = {};
            for (int64_t r = 0; r < count; r++)
                lanes[r] = add_bias(&scores[r * c], bias + (start + r) * t, t, span, &unknown[r]);
            const vec8 most = eight_largest(lanes);
            head.prefetch(next + s.place(2), s.place(3), start, false);
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
            head.prefetch(out + s.at(at, 1), s.place(1), start, true);
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
            T* to = out + s.at(at, 1) + start * s.place(1);
            head.write(result.data(), count, 1.0f, nullptr, nullptr, to, s.place(1));
        }
    }
}

template <typename T, int64_t F>
void backward(const Sizes& s, const Inputs& in, const Mask& mask, const float* tops, const float* totals,
              const T* d_out, T* d_qkv, float* d_bias) {
    const Head<F> head(s);
    const int64_t t = s.places, c = head.columns, f = head.f;
    Floats q((t + BLOCK) * f), k(c * f), v(c * f), d((t + BLOCK) * f), k_turned(f * c), v_turned(f * c);
    Floats scores(BLOCK * c), slopes(BLOCK * c), d_queries((t + BLOCK) * f), d_keys(t * f), d_values(t * f);
    for (int64_t at = 0, place = 0; at < s.all(); at++) {
        const int64_t n = at / s.heads / s.rows, b = at / s.heads % s.rows;
        const float* bias = mask.bias + n * mask.run + b * mask.row;
        const Span* spans = mask.spans + n * mask.span_run + b * mask.span_row;
        const T *next = (const T*)in.qkv + s.next(at, 3), *next_d = d_out + s.next(at, 1);
        head.template read<T>(s, in, at, 0, in.scale[n], q.data());
        head.template read<T>(s, in, at, 1, 1.0f, k.data());
        head.template read<T>(s, in, at, 2, 1.0f, v.data());
        head.read(d_out + s.at(at, 1), s.place(1), nullptr, nullptr, 1.0f, d.data());
        head.transpose(k.data(), k_turned.data());
        head.transpose(v.data(), v_turned.data());
        d_keys.clear();
        d_values.clear();
        T* to = d_qkv + s.at(at, 3);
        for (int64_t start = 0; start < t; start += BLOCK) {
            const Span span = spans[start / BLOCK];
            const int64_t count = std::min(BLOCK, t - start);
            head.prefetch(next, s.place(3), start, false);
            head.rows_by_columns(&q[start * f], k_turned.data(), span, scores.data());
            head.prefetch(next + s.place(1), s.place(3), start, false);
            head.rows_by_columns(&d[start * f], v_turned.data(), span, slopes.data());
            head.prefetch(next + s.place(2), s.place(3), start, false);
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
            const vec8 mean = eight_sums(total);
            head.prefetch(next_d, s.place(1), start, false);
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
            head.prefetch(to, s.place(3), start, true);
            head.add_transposed(slopes.data(), &q[start * f], span, d_keys.data());
            head.prefetch(to + s.place(1), s.place(3), start, true);
            head.add_transposed(scores.data(), &d[start * f], span, d_values.data());
            head.prefetch(to + s.place(2), s.place(3), start, true);
            for (int64_t r = 0; r < count; r++) round<T>(&slopes[r * c], 1.0f, span);
            head.rows_by_rows(slopes.data(), k.data(), span, &d_queries[start * f]);
        }
        const float* parts[3] = {d_queries.data(), d_keys.data(), d_values.data()};
        for (int64_t g = 0; g < 3; g++) {
            float* sums = d_bias == nullptr ? nullptr : d_bias + (n * 3 + g) * s.place(1) + at % s.heads * s.width;
            const float factor = g == 0 ? in.scale[n] : 1.0f;
            head.write(parts[g], t, factor, in.table(s, g, n), sums, to + g * s.place(1), s.place(3));
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

// bf16: whether qkv and out are, else float32. out: [N, B, T, H, K]. tops, totals: [N, B, H, T], for the backward pass;
// statistics and regions may be null.
extern "C" void attention_forward(int64_t bf16, const Sizes* s, const Inputs* in, const Mask* mask, void* out,
                                  float* tops, float* totals, const Statistics* statistics, const Region* regions) {
    const auto run = [&]<typename T>(T* to) {
        const auto fn = s->width <= 16 ? forward<T, 16> : s->width <= 32 ? forward<T, 32> : forward<T, 0>;
        fn(*s, *in, *mask, to, tops, totals, statistics, regions);
    };
    bf16 ? run((bfloat*)out) : run((float*)out);
}

// The gradients of qkv and, added to what is there, of its bias, which may be null. Probabilities are computed again.
extern "C" void attention_backward(int64_t bf16, const Sizes* s, const Inputs* in, const Mask* mask, const float* tops,
                                   const float* totals, const void* d_out, void* d_qkv, float* d_bias) {
    const auto run = [&]<typename T>(const T* from) {
        const auto fn = s->width <= 16 ? backward<T, 16> : s->width <= 32 ? backward<T, 32> : backward<T, 0>;
        fn(*s, *in, *mask, tops, totals, from, (T*)d_qkv, d_bias);
    };
    bf16 ? run((const bfloat*)d_out) : run((const float*)d_out);
}
