// parameter: a tensor that a layer declares and a unit binds to memory.
//
// A layer knows a parameter's global name, shape and initial distribution. The unit that owns the
// parameter decides where values and gradients are stored (sharded, gathered, in which buffer) and
// binds the two pointers. So a layer's code is the same under every strategy.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <parallel/core/dtype.hpp>
#include <parallel/core/philox.hpp>
#include <parallel/core/tensor.hpp>

namespace parallel {

/// Initial values: every element is `value`.
struct constant_init {
  float value = 0.0F;
};
/// Initial values: Normal(0, deviation), by global element index.
struct normal_init {
  float deviation = 1.0F;
};
/// Initial values: Uniform(low, high), by global element index.
struct uniform_init {
  float low = 0.0F;
  float high = 1.0F;
};
/// The distribution of a parameter's initial values.
using initializer = std::variant<constant_init, normal_init, uniform_init>;

/// A range of rows of a tensor.
struct row_range {
  index begin = 0;
  index count = 0;
};

/// The way in which ranks that hold different slices of one layer share a parameter.
struct parameter_replication {
  int ranks = 1;         ///< adjacent ranks along the tensor axis that hold the same elements
  bool partial = false;  ///< their gradients are addends, computed from different rows or heads
  friend auto operator<=>(parameter_replication const&, parameter_replication const&) = default;
};

/// A parameter with any number of dimensions: name, extents and bound memory. It is a slice of the
/// tensor of that name: some ranges of rows, one after another, and of each row a range of columns.
/// The slice may be the whole tensor.
template <class T>
struct parameter_base {
  using gradient_type = accumulate_t<T>;

  std::string name;  ///< global, as in checkpoints: "transformer.blocks.0.attn.Wqkv.weight"
  std::vector<index> extents;        ///< of the slice
  std::vector<index> whole_extents;  ///< of the tensor; empty: the slice is the whole tensor
  std::vector<row_range> rows;       ///< rows of the tensor that form the slice, if sliced
  index first_column = 0;            ///< column of the tensor at which the slice begins
  parameter_replication replication = {};
  int expert_ranks = 1;  ///< neighbours among the data ranks that hold other experts of the tensor
  initializer initial = constant_init{};
  T* data = nullptr;                       ///< bound by a unit; null on the meta device
  gradient_type* gradient_data = nullptr;  ///< summed into, never divided
  /// In canonical order, elements from the gradient due to the rows of one of expert_ranks to that
  /// of the next; 0: one gradient for all rows.
  index source_stride = 0;
  bool replaces_gradient = false;  ///< the layer obeys context::overwrites for it
  bool shares_gradient = false;    ///< uses of other parts add to its gradient before it
  bool is_fresh_gradient = false;  ///< every microbatch finds old values in its gradient
  bool trainable = true;           ///< false: frozen by its unit, without a gradient

  [[nodiscard]] index size() const {
    index product = extents.empty() ? 0 : 1;
    for (index const extent : extents) product *= extent;
    return product;
  }

  [[nodiscard]] std::vector<index> const& tensor_extents() const {
    return whole_extents.empty() ? extents : whole_extents;
  }

  /// Elements in one row of the slice, and in one row of the tensor.
  [[nodiscard]] index row_size() const { return extents.size() < 2 ? 1 : size() / extents[0]; }
  [[nodiscard]] index tensor_row_size() const {
    auto const& whole = tensor_extents();
    return whole.size() < 2 ? 1 : row_size() / extents[1] * whole[1];
  }

  /// Splits elements [first, last) of the slice into the largest regular blocks and calls
  /// f(first, count, global, run) for each. A block has `count` elements; its first element is
  /// element `global` of the tensor. With run 0 the block is contiguous in the tensor; otherwise it
  /// consists of runs of `run` elements that begin one tensor row apart.
  template <class F>
  void for_each_block(index first, index last, F&& f) const {
    if (whole_extents.empty()) {
      if (first < last) f(first, last - first, first, index{0});
      return;
    }
    index const width = row_size();
    index const whole_width = tensor_row_size();
    bool const whole_rows = width == whole_width;
    index begin = 0;  // of the row range, in elements of the slice
    for (auto const& range : rows) {
      index const end = begin + range.count * width;
      for (index position = std::max(first, begin); position < std::min(last, end);) {
        index const row = (position - begin) / width;
        index const column = (position - begin) % width;
        index stop = std::min({last, end, whole_rows ? end : begin + (row + 1) * width});
        index const full = (std::min(last, end) - position) / width;  // rows
        bool const block = !whole_rows && column == 0 && full > 1;
        if (block) stop = position + full * width;
        f(position, stop - position, (range.begin + row) * whole_width + first_column + column,
          block ? width : index{0});
        position = stop;
      }
      begin = end;
    }
  }

  /// Splits elements [first, last) of the slice into the longest ranges that are contiguous in the
  /// tensor and calls f(first, count, global) for each. A range begins at element `global` of the
  /// tensor.
  template <class F>
  void for_each_run(index first, index last, F&& f) const {
    for_each_block(first, last, [&](index position, index count, index global, index run) {
      if (run == 0) return f(position, count, global);
      for (index row = 0; row * run < count; ++row)
        f(position + row * run, run, global + row * tensor_row_size());
    });
  }

  /// Splits elements [first, last) of the slice by row ranges and calls f(first, last, row) for
  /// each piece. Its rows are consecutive in the tensor, and its first element is in row `row` of
  /// the tensor.
  template <class F>
  void for_each_row_range(index first, index last, F&& f) const {
    index const width = row_size();
    if (whole_extents.empty()) {
      f(first, last, first / width);
      return;
    }
    index begin = 0;
    for (auto const& range : rows) {
      index const end = begin + range.count * width;
      index const from = std::max(first, begin);
      if (from < std::min(last, end))
        f(from, std::min(last, end), range.begin + (from - begin) / width);
      begin = end;
    }
  }

 protected:
  /// Reduces the parameter to these rows.
  void slice_rows(std::vector<row_range> ranges) {
    if (whole_extents.empty()) whole_extents = extents;
    extents[0] = 0;
    for (auto const& range : ranges) extents[0] += range.count;
    rows = std::move(ranges);
  }
};

/// A parameter with N dimensions. Without extents it is absent, as the bias of a linear layer that
/// has none.
template <class T, std::size_t N>
class parameter : public parameter_base<T> {
 public:
  using gradient_type = typename parameter_base<T>::gradient_type;

  parameter() = default;
  parameter(std::string full_name, shape<N> of_shape, initializer start = constant_init{}) {
    this->name = std::move(full_name);
    this->extents.assign(of_shape.begin(), of_shape.end());
    this->initial = start;
  }

  /// Keeps only these rows of the tensor, in this order.
  parameter& keep_rows(std::vector<row_range> ranges) {
    if (is_present()) this->slice_rows(std::move(ranges));
    return *this;
  }

  /// Keeps only `count` columns of the tensor, from `first` on.
  parameter& keep_columns(index first, index count) requires(N == 2) {
    if (!is_present()) return *this;
    if (this->whole_extents.empty()) this->slice_rows({{0, this->extents[0]}});
    this->first_column = first;
    this->extents[1] = count;
    return *this;
  }

  /// Declares that `replicas.ranks` adjacent ranks hold the same elements.
  parameter& replicated(parameter_replication replicas) {
    this->replication = replicas;
    return *this;
  }

  /// Whether the layer has this parameter.
  [[nodiscard]] bool is_present() const { return !this->extents.empty(); }

  /// Whether a backward pass must add to its gradient: the parameter is present and not frozen.
  [[nodiscard]] bool has_gradient() const { return is_present() && this->trainable; }

  [[nodiscard]] tensor_view<T const, N> value() const { return {this->data, dims()}; }
  /// Empty when absent or frozen. `source`: the rank whose rows' gradient it is, where
  /// source_stride is set.
  [[nodiscard]] tensor_view<gradient_type, N> gradient(index source = 0) const {
    auto* const base = this->gradient_data;
    return {base == nullptr ? base : base + source * this->source_stride,
            this->trainable ? dims() : shape<N>{}};
  }

 private:
  [[nodiscard]] shape<N> dims() const {
    shape<N> out{};
    for (std::size_t i = 0; i < this->extents.size(); ++i) out[i] = this->extents[i];
    return out;
  }
};

namespace detail {

/// The compiler's message for a layer without visit_parameters, once for each layer type.
template <class Layer>
struct require_shown {
  static_assert(sizeof(Layer) == 0,
                "a layer has no visit_parameters(f) that calls f with each parameter; write one, "
                "empty if there are none (parallel/layer/concepts.hpp)");
};

/// The compiler's message for a layer of another element type, once for each layer type.
template <class Layer>
struct require_same_element {
  static_assert(
      sizeof(Layer) == 0,
      "a layer's type element is another than the model's; all layers of a model have the "
      "element type that the model names");
};

/// Whether f takes the parameters of a layer that names its type element.
template <class Layer, class F>
concept takes_parameters_of = !requires {
  typename Layer::element;
}
|| std::is_invocable_v<F&, parameter_base<typename Layer::element>&>;

}  // namespace detail

/// Calls layer.visit_parameters(f). A layer without this member, or of elements that f does not
/// take, gives one clear compiler error.
template <class Layer, class F>
void visit_parameters_of(Layer& layer, F&& f) {
  if constexpr (!detail::takes_parameters_of<Layer, F>)
    static_cast<void>(sizeof(detail::require_same_element<Layer>));
  else if constexpr (requires { layer.visit_parameters(f); })
    layer.visit_parameters(f);
  else
    static_cast<void>(sizeof(detail::require_shown<Layer>));
}

/// Writes elements [begin, begin + out.size()) of a tensor's initial value. They are a function of
/// seed, name and global index only: every layout starts from the same numbers.
template <class U>
void initial_values(std::span<U> out, std::string_view name, initializer const& initial,
                    std::uint64_t seed, index begin) {
  philox const random(seed, stream_id(name));
  for (std::size_t i = 0; i < out.size(); ++i) {
    auto const element = static_cast<std::uint64_t>(begin) + i;
    out[i] = static_cast<U>(std::visit(
        [&](auto const& kind) {
          using kind_type = std::decay_t<decltype(kind)>;
          if constexpr (std::is_same_v<kind_type, constant_init>)
            return kind.value;
          else if constexpr (std::is_same_v<kind_type, normal_init>)
            return kind.deviation * random.normal(element);
          else
            return kind.low + (kind.high - kind.low) * random.uniform(element);
        },
        initial));
  }
}

}  // namespace parallel
