// Checks of attention, at once and by parts of the keys, and of its gradients: a device must give
// the results of the reference for all options. They run with guarded memory on any machine, and
// with a GPU's memory.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include <parallel/ops/attention/extend_attention.hpp>
#include <parallel/ops/reference.hpp>

#include "support/twin.hpp"

namespace test {

namespace ops = parallel::ops;

struct attention_form {
  index batch = 2, sequence = 100, heads = 4, key_heads = 4, dim = 64;
  bool alibi = false;
  float dropout = 0.0F;
  index window = -1;
  double softcap = 0.0;
  bool documents = false;
};

inline std::vector<attention_form> attention_forms() {
  return {{},
          {.alibi = true},
          {.sequence = 257, .heads = 3, .key_heads = 1, .dim = 128, .alibi = true},
          {.sequence = 64, .heads = 6, .key_heads = 2, .dim = 80},
          {.sequence = 1, .dim = 8, .alibi = true},
          {.sequence = 130, .dim = 64, .alibi = true, .window = 33},
          {.sequence = 130, .dim = 64, .alibi = true, .documents = true},
          {.sequence = 256, .heads = 4, .key_heads = 2, .dim = 64, .documents = true},
          {.sequence = 200,
           .heads = 2,
           .key_heads = 1,
           .dim = 128,
           .alibi = true,
           .window = 20,
           .documents = true},
          {.sequence = 77, .dim = 64, .alibi = true, .dropout = 0.25F},
          {.sequence = 90, .heads = 2, .key_heads = 2, .dim = 40, .softcap = 2.0},
          {.sequence = 111,
           .heads = 4,
           .key_heads = 2,
           .dim = 32,
           .alibi = true,
           .dropout = 0.1F,
           .window = 50,
           .softcap = 3.0,
           .documents = true}};
}

/// The forms that fused kernels support, and one sequence of a length usual in training, which
/// gives every block of a GPU several tiles.
inline std::vector<attention_form> fused_attention_forms() {
  std::vector<attention_form> out;
  for (auto const& form : attention_forms())
    if (form.sequence > 1 && form.dropout == 0.0F && form.softcap == 0.0) out.push_back(form);
  out.push_back({.batch = 1, .sequence = 2048, .heads = 2, .key_heads = 1, .alibi = true});
  return out;
}

/// Packed rows [q | k | v] of one problem, its options, and views of the rows on each side.
template <class T, class Device>
struct attention_sides {
  attention_form form;
  std::vector<float> slopes;
  twin<std::int32_t, Device> document_begins;
  parallel::philox random;

  attention_sides(both_sides<Device>& sides, attention_form const& f)
      : form(f), document_begins(sides.twin_of(documents(f))), random(sides.next_seed(), 3) {
    if (f.alibi)
      for (index h = 0; h < f.heads; ++h)
        slopes.push_back(
            std::exp2(-8.0F * static_cast<float>(h + 1) / static_cast<float>(f.heads)));
  }

  [[nodiscard]] index row() const { return (form.heads + 2 * form.key_heads) * form.dim; }
  [[nodiscard]] index packed() const { return form.batch * form.sequence * row(); }
  [[nodiscard]] index result() const { return form.batch * form.sequence * form.heads * form.dim; }
  [[nodiscard]] index statistics() const { return form.batch * form.heads * form.sequence; }

  /// which: 0 q, 1 k, 2 v.
  template <class E>
  [[nodiscard]] ops::heads_view<E> part(E* data, int part_index) const {
    index const first =
        part_index == 0 ? 0 : (form.heads + (part_index - 1) * form.key_heads) * form.dim;
    return {data + first,  form.batch,
            form.sequence, part_index == 0 ? form.heads : form.key_heads,
            form.dim,      form.sequence * row(),
            row()};
  }
  template <class E>
  [[nodiscard]] ops::heads_view<E> whole(E* data) const {
    index const width = form.heads * form.dim;
    return {data, form.batch, form.sequence, form.heads, form.dim, form.sequence * width, width};
  }
  template <class E>
  [[nodiscard]] parallel::tensor_view<E, 3> by_head(E* data) const {
    return {data, {form.batch, form.heads, form.sequence}};
  }

  template <class Stream>
  [[nodiscard]] ops::attention_options options(Stream const& s) {
    return {.scale = 1.0 / std::sqrt(static_cast<double>(form.dim)),
            .alibi_slopes = slopes,
            .dropout = {.probability = form.dropout, .random = random, .first_sequence = 3},
            .softcap = form.softcap,
            .window = form.window,
            .document_begins = {
                std::span<std::int32_t const>(document_begins.data_for(s),
                                              static_cast<std::size_t>(document_begins.size())),
                count(form)}};
  }

  /// The number of documents.
  static index count(attention_form const& f) {
    index out = 0;
    for (index position = 0; auto const document_begin : documents(f))
      out += document_begin == position++ % f.sequence ? 1 : 0;
    return out;
  }
  static std::vector<std::int32_t> documents(attention_form const& f) {
    std::vector<std::int32_t> out;
    if (f.documents)
      for (index b = 0; b < f.batch; ++b)
        for (index position = 0; position < f.sequence; ++position)
          out.push_back(static_cast<std::int32_t>(position / (29 + 8 * b) * (29 + 8 * b)));
    return out;
  }
};

/// The bound as a share of the greatest result. Probabilities and scores may be rounded to T.
template <class T>
inline constexpr double attention_share = sizeof(T) == 2 ? 6.0 * unit<T> : 400.0 * unit<T>;

template <class T, class Device>
void check_attention(both_sides<Device>& sides,
                     std::vector<attention_form> const& forms = attention_forms()) {
  using A = accumulate_t<T>;
  for (auto const& form : forms) {
    CAPTURE(form.sequence);
    CAPTURE(form.dim);
    attention_sides<T, Device> problem(sides, form);
    auto packed = sides.template random<T>(problem.packed()),
         d_packed = sides.template poisoned<T>(problem.packed());
    auto result = sides.template poisoned<T>(problem.result()),
         dout = sides.template random<T>(problem.result());
    auto lse = sides.template poisoned<A>(problem.statistics());
    sides.run([&](auto& s) {
      using element = std::remove_reference_t<decltype(*packed.data_for(s))>;
      element const* const x = packed.data_for(s);
      ops::attention(s, problem.whole(result.data_for(s)), problem.by_head(lse.data_for(s)),
                     problem.part(x, 0), problem.part(x, 1), problem.part(x, 2),
                     problem.options(s));
    });
    check_close(result, attention_share<T>);
    check_near(lse, sizeof(T) == 2 ? 1e-4 : 64.0 * unit<A>, 64.0 * unit<A>);
    // both sides differentiate at the result that the device computed
    auto computed = sides.twin_of(result.values());
    auto sums = sides.twin_of(lse.values());
    sides.run([&](auto& s) {
      using element = std::remove_reference_t<decltype(*packed.data_for(s))>;
      element const* const x = packed.data_for(s);
      element const* const y = computed.data_for(s);
      element const* const dy = dout.data_for(s);
      ops::attention_backward(s, ops::attention_backward_arguments<std::remove_const_t<element>>{
                                     .dq = problem.part(d_packed.data_for(s), 0),
                                     .dk = problem.part(d_packed.data_for(s), 1),
                                     .dv = problem.part(d_packed.data_for(s), 2),
                                     .dout = problem.whole(dy),
                                     .q = problem.part(x, 0),
                                     .k = problem.part(x, 1),
                                     .v = problem.part(x, 2),
                                     .out = problem.whole(y),
                                     .lse = problem.by_head(sums.data_for(s)),
                                     .options = problem.options(s)});
    });
    check_close(d_packed, attention_share<T>);
  }
}

/// Positions [begin, end) of every sequence.
struct positions {
  index begin, end;

  template <class View>
  [[nodiscard]] View slice(View const& view) const {
    return view.slice(begin, end);
  }
};

/// Attention over the keys in two parts, the later part first: for all queries at once, or for each
/// half of them.
template <class T, class Device>
void check_extended_attention(both_sides<Device>& sides,
                              std::vector<attention_form> const& forms = attention_forms(),
                              bool in_halves = false) {
  using A = accumulate_t<T>;
  for (auto const& form : forms) {
    if (form.sequence < 2) continue;
    CAPTURE(form.sequence);
    CAPTURE(form.dim);
    attention_sides<T, Device> problem(sides, form);
    auto packed = sides.template random<T>(problem.packed());
    auto out = sides.template poisoned<A>(problem.result());
    auto lse =
        sides.twin_of(std::vector<A>(static_cast<std::size_t>(problem.statistics()), A(-INFINITY)));
    index const length = form.sequence, middle = in_halves ? length / 2 : length / 3;
    using run = positions;
    std::vector<run> const runs =
        in_halves ? std::vector{run{0, middle}, run{middle, length}} : std::vector{run{0, length}};
    auto const for_each_pair = [&](auto& s, auto* statistics, auto const& f) {
      for (run const q : runs)
        for (run const k : {run{middle, length}, run{0, middle}}) {
          if (k.begin >= q.end) continue;
          auto options = problem.options(s);
          options.positions = {
              .sequence_length = length, .first_query = q.begin, .first_key = k.begin};
          index const offset =
              form.batch * form.heads * q.begin;  // each run has its own statistics
          f(q, k,
            parallel::tensor_view(statistics + offset,
                                  parallel::shape<3>{form.batch, form.heads, q.end - q.begin}),
            options);
        }
    };
    sides.run([&](auto& s) {
      using element = std::remove_reference_t<decltype(*packed.data_for(s))>;
      element const* const x = packed.data_for(s);
      for_each_pair(s, lse.data_for(s), [&](run q, run k, auto sums, auto const& options) {
        ops::extend_attention(s, q.slice(problem.whole(out.data_for(s))), sums,
                              q.slice(problem.part(x, 0)), k.slice(problem.part(x, 1)),
                              k.slice(problem.part(x, 2)), options);
      });
    });
    check_close(out, attention_share<T>);
    check_near(lse, sizeof(T) == 2 ? 1e-4 : 64.0 * unit<A>, 64.0 * unit<A>);

    auto rounded = sides.twin_of([&] {
      std::vector<T> values;
      for (A const value : out.values()) values.push_back(static_cast<T>(value));
      return values;
    }());
    auto sums = sides.twin_of(lse.values());
    auto dout = sides.template random<T>(problem.result());
    auto d = sides.twin_of(std::vector<A>(static_cast<std::size_t>(problem.packed()), A(0)));
    sides.run([&](auto& s) {
      using element = std::remove_reference_t<decltype(*packed.data_for(s))>;
      element const* const x = packed.data_for(s);
      element const* const y = rounded.data_for(s);
      element const* const dy = dout.data_for(s);
      for_each_pair(s, sums.data_for(s), [&](run q, run k, auto run_sums, auto const& options) {
        ops::extend_attention_backward(
            s, ops::extend_attention_backward_arguments<std::remove_const_t<element>>{
                   .dq = q.slice(problem.part(d.data_for(s), 0)),
                   .dk = k.slice(problem.part(d.data_for(s), 1)),
                   .dv = k.slice(problem.part(d.data_for(s), 2)),
                   .dout = q.slice(problem.whole(dy)),
                   .q = q.slice(problem.part(x, 0)),
                   .k = k.slice(problem.part(x, 1)),
                   .v = k.slice(problem.part(x, 2)),
                   .out = q.slice(problem.whole(y)),
                   .lse = run_sums,
                   .options = options});
      });
    });
    check_close(d, attention_share<T>);
  }
}

}  // namespace test
