// Attention, whole and part by part, and its gradients, held against the reference in every kind of
// option. Used with guarded memory on any machine, and with a GPU's.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include <parallel/ops/extend_attention.hpp>
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

/// Those that fused kernels are for, and a sequence as long as those of training: several tiles for
/// every block of a GPU.
inline std::vector<attention_form> fused_attention_forms() {
  std::vector<attention_form> out;
  for (auto const& form : attention_forms())
    if (form.sequence > 1 && form.dropout == 0.0F && form.softcap == 0.0) out.push_back(form);
  out.push_back({.batch = 1, .sequence = 2048, .heads = 2, .key_heads = 1, .alibi = true});
  return out;
}

/// Packed rows [q | k | v] of one problem, its options, and views of them on any side.
template <class T, class Device>
struct attention_sides {
  attention_form form;
  std::vector<float> slopes;
  twin<std::int32_t, Device> begins;
  parallel::philox random;

  attention_sides(both_sides<Device>& both, attention_form const& f)
      : form(f), begins(both.of(documents(f))), random(both.next_seed(), 3) {
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
  [[nodiscard]] ops::heads_view<E> part(E* data, int which) const {
    index const first = which == 0 ? 0 : (form.heads + (which - 1) * form.key_heads) * form.dim;
    return {data + first,  form.batch,
            form.sequence, which == 0 ? form.heads : form.key_heads,
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
            .document_begins = {std::span<std::int32_t const>(
                                    begins.on(s), static_cast<std::size_t>(begins.size())),
                                count(form)}};
  }

  /// How many documents there are.
  static index count(attention_form const& f) {
    index out = 0;
    for (index at = 0; auto const begin : documents(f)) out += begin == at++ % f.sequence ? 1 : 0;
    return out;
  }
  static std::vector<std::int32_t> documents(attention_form const& f) {
    std::vector<std::int32_t> out;
    if (f.documents)
      for (index b = 0; b < f.batch; ++b)
        for (index at = 0; at < f.sequence; ++at)
          out.push_back(static_cast<std::int32_t>(at / (29 + 8 * b) * (29 + 8 * b)));
    return out;
  }
};

/// Rounding of probabilities and scores to T on the way is allowed: bounds are of the greatest
/// result.
template <class T>
inline constexpr double attention_share = sizeof(T) == 2 ? 6.0 * unit<T> : 400.0 * unit<T>;

template <class T, class Device>
void check_attention(both_sides<Device>& both,
                     std::vector<attention_form> const& forms = attention_forms()) {
  using A = accumulate_t<T>;
  for (auto const& form : forms) {
    CAPTURE(form.sequence);
    CAPTURE(form.dim);
    attention_sides<T, Device> of(both, form);
    auto in = both.template random<T>(of.packed()), d = both.template poisoned<T>(of.packed());
    auto out = both.template poisoned<T>(of.result()), dout = both.template random<T>(of.result());
    auto lse = both.template poisoned<A>(of.statistics());
    both.run([&](auto& s) {
      using element = std::remove_reference_t<decltype(*in.on(s))>;
      element const* const x = in.on(s);
      ops::attention(s, of.whole(out.on(s)), of.by_head(lse.on(s)), of.part(x, 0), of.part(x, 1),
                     of.part(x, 2), of.options(s));
    });
    check_close(out, attention_share<T>);
    check_near(lse, sizeof(T) == 2 ? 1e-4 : 64.0 * unit<A>, 64.0 * unit<A>);
    // the gradient of what the device itself computed: given to both sides
    auto given = both.of(out.values());
    auto sums = both.of(lse.values());
    both.run([&](auto& s) {
      using element = std::remove_reference_t<decltype(*in.on(s))>;
      element const* const x = in.on(s);
      element const* const y = given.on(s);
      element const* const dy = dout.on(s);
      ops::attention_backward(s, of.part(d.on(s), 0), of.part(d.on(s), 1), of.part(d.on(s), 2),
                              of.whole(dy), of.part(x, 0), of.part(x, 1), of.part(x, 2),
                              of.whole(y), of.by_head(sums.on(s)), of.options(s));
    });
    check_close(d, attention_share<T>);
  }
}

/// Positions [begin, end) of every sequence.
struct positions {
  index begin, end;

  template <class View>
  [[nodiscard]] View of(View const& view) const {
    return view.slice(begin, end);
  }
};

/// The keys in two parts, the later one first: for all queries, or for each half of them.
template <class T, class Device>
void check_extended_attention(both_sides<Device>& both,
                              std::vector<attention_form> const& forms = attention_forms(),
                              bool halves = false) {
  using A = accumulate_t<T>;
  for (auto const& form : forms) {
    if (form.sequence < 2) continue;
    CAPTURE(form.sequence);
    CAPTURE(form.dim);
    attention_sides<T, Device> of(both, form);
    auto in = both.template random<T>(of.packed());
    auto out = both.template poisoned<A>(of.result());
    auto lse = both.of(std::vector<A>(static_cast<std::size_t>(of.statistics()), A(-INFINITY)));
    index const whole = form.sequence, middle = halves ? whole / 2 : whole / 3;
    using part = positions;
    std::vector<part> const runs =
        halves ? std::vector{part{0, middle}, part{middle, whole}} : std::vector{part{0, whole}};
    auto const for_each_pair = [&](auto& s, auto* statistics, auto const& f) {
      for (part const q : runs)
        for (part const k : {part{middle, whole}, part{0, middle}}) {
          if (k.begin >= q.end) continue;
          auto options = of.options(s);
          options.positions = {
              .sequence_length = whole, .first_query = q.begin, .first_key = k.begin};
          index const before = form.batch * form.heads * q.begin;  // of each run by itself
          f(q, k,
            parallel::tensor_view(statistics + before,
                                  parallel::shape<3>{form.batch, form.heads, q.end - q.begin}),
            options);
        }
    };
    both.run([&](auto& s) {
      using element = std::remove_reference_t<decltype(*in.on(s))>;
      element const* const x = in.on(s);
      for_each_pair(s, lse.on(s), [&](part q, part k, auto sums, auto const& options) {
        ops::extend_attention(s, q.of(of.whole(out.on(s))), sums, q.of(of.part(x, 0)),
                              k.of(of.part(x, 1)), k.of(of.part(x, 2)), options);
      });
    });
    check_close(out, attention_share<T>);
    check_near(lse, sizeof(T) == 2 ? 1e-4 : 64.0 * unit<A>, 64.0 * unit<A>);

    auto rounded = both.of([&] {
      std::vector<T> values;
      for (A const value : out.values()) values.push_back(static_cast<T>(value));
      return values;
    }());
    auto sums = both.of(lse.values());
    auto dout = both.template random<T>(of.result());
    auto d = both.of(std::vector<A>(static_cast<std::size_t>(of.packed()), A(0)));
    both.run([&](auto& s) {
      using element = std::remove_reference_t<decltype(*in.on(s))>;
      element const* const x = in.on(s);
      element const* const y = rounded.on(s);
      element const* const dy = dout.on(s);
      for_each_pair(s, sums.on(s), [&](part q, part k, auto lse_here, auto const& options) {
        ops::extend_attention_backward(s, q.of(of.part(d.on(s), 0)), k.of(of.part(d.on(s), 1)),
                                       k.of(of.part(d.on(s), 2)), q.of(of.whole(dy)),
                                       q.of(of.part(x, 0)), k.of(of.part(x, 1)),
                                       k.of(of.part(x, 2)), q.of(of.whole(y)), lse_here, options);
      });
    });
    check_close(d, attention_share<T>);
  }
}

}  // namespace test
