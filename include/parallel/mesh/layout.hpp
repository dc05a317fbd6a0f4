// layout: the degree of each axis of parallelism, and the coordinates of a rank along the axes.
//
// Axes are types, outermost first. Ranks that differ only in the last axis are neighbours, so the
// axis with the most traffic is the last. A layout is a value; `mesh` creates communicators from
// it.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <parallel/core/error.hpp>

namespace parallel {

/// The axes of training, each named for what differs between the ranks along it.
namespace axis {
/// Ranks hold consecutive stages of the model.
struct pipeline {
  static constexpr std::string_view name = "pipeline";
};
/// Ranks train on different sequences and hold the same shards of parameters.
struct replicate {
  static constexpr std::string_view name = "replicate";
};
/// Ranks train on different sequences and hold different shards of parameters (ZeRO).
struct shard {
  static constexpr std::string_view name = "shard";
};
/// Ranks hold different parts of the same sequences.
struct context {
  static constexpr std::string_view name = "context";
};
/// Ranks hold different slices of each layer's parameters.
struct tensor {
  static constexpr std::string_view name = "tensor";
};
/// Ranks with different data hold different experts. This axis is no factor of a layout: it divides
/// ranks that replicate, shard and context have made.
struct expert {
  static constexpr std::string_view name = "expert";
};
}  // namespace axis

/// The degrees of the axes. All degrees of a new layout are 1.
template <class... Axes>
class layout {
 public:
  static constexpr std::size_t axes = sizeof...(Axes);

  template <class Axis>
  static constexpr bool has_axis = (std::same_as<Axis, Axes> || ...);

  template <class Axis>
  requires has_axis<Axis>
  [[nodiscard]] constexpr int degree() const { return degrees_[axis_index<Axis>()]; }

  /// A copy of this layout in which one axis has the degree `degree`.
  template <class Axis>
  requires has_axis<Axis>
  [[nodiscard]] constexpr layout with_degree(int degree) const {
    layout out = *this;
    out.degrees_[axis_index<Axis>()] = degree;
    return out;
  }

  /// The number of ranks of the whole layout.
  [[nodiscard]] constexpr int ranks() const { return size<Axes...>(); }

  /// The number of ranks along the product of some axes. Throws `error` when it exceeds an int.
  template <class... Selected>
  requires(has_axis<Selected>&&...) [[nodiscard]] constexpr int size() const {
    check_degrees();
    auto const ranks = product<Selected...>();
    if (ranks > max_ranks) fail(too_many_ranks_message<Selected...>());
    return static_cast<int>(ranks);
  }

  /// The coordinate of `rank` along one axis.
  template <class Axis>
  requires has_axis<Axis>
  [[nodiscard]] constexpr int coordinate(int rank) const {
    for (std::size_t i = axes; i-- > axis_index<Axis>() + 1;) rank /= degrees_[i];
    return rank % degree<Axis>();
  }

  /// The position of `rank` along the product of some axes. The last axis of the layout varies
  /// fastest, whatever the order of the template arguments.
  template <class... Selected>
  requires(has_axis<Selected>&&...) [[nodiscard]] constexpr int position(int rank) const {
    int out = 0;
    ((out = is_among<Axes, Selected...> ? out * degree<Axes>() + coordinate<Axes>(rank) : out),
     ...);
    return out;
  }

  /// The index of the group that `rank` belongs to, among the groups of ranks along the product of
  /// some axes.
  template <class... Selected>
  requires(has_axis<Selected>&&...) [[nodiscard]] constexpr int group(int rank) const {
    int out = 0;
    ((out = is_among<Axes, Selected...> ? out : out * degree<Axes>() + coordinate<Axes>(rank)),
     ...);
    return out;
  }

  /// For example "pipeline 2 x tensor 4". Axes of degree 1 are left out; if all are, "1 rank".
  [[nodiscard]] std::string text() const {
    std::string out;
    ((out += degree<Axes>() == 1
                 ? std::string()
                 : concat(out.empty() ? "" : " x ", Axes::name, ' ', degree<Axes>())),
     ...);
    return out.empty() ? "1 rank" : out;
  }

  /// Throws `error` unless all degrees are positive.
  constexpr void check_degrees() const {
    (require(degree<Axes>() >= 1, "layout: the degree of ", Axes::name, " is ", degree<Axes>(),
             ", but must be at least 1"),
     ...);
  }

  /// Throws `error` unless the degrees are positive and their product is `ranks`. The message
  /// proposes a degree that would fit.
  void check(int ranks) const {
    check_degrees();
    if (this->ranks() == ranks) return;
    std::string fits;
    (propose<Axes>(ranks, fits), ...);
    fail("layout: ", text(), " needs ", this->ranks(), this->ranks() == 1 ? " rank" : " ranks",
         ", but there are ", ranks, "; ",
         fits.empty() ? concat("start ", this->ranks(), " ranks")
                      : concat("start ", this->ranks(), " ranks, or set ", fits));
  }

  friend constexpr bool operator==(layout const&, layout const&) = default;

 private:
  template <class Axis, class... Selected>
  static constexpr bool is_among = (std::same_as<Axis, Selected> || ...);

  template <class Axis>
  static constexpr std::size_t axis_index() {
    std::size_t i = 0;
    (void)((std::same_as<Axis, Axes> || (++i, false)) || ...);
    return i;
  }

  static constexpr std::int64_t max_ranks = std::numeric_limits<int>::max();

  /// The product of some positive degrees; once it exceeds max_ranks, further degrees are left out.
  template <class... Selected>
  [[nodiscard]] constexpr std::int64_t product() const {
    std::int64_t out = 1;  // at most most_ranks before it is multiplied by an int: no overflow
    ((out = out > max_ranks ? out : out * degree<Selected>()), ...);
    return out;
  }

  /// The error message for a product of degrees that is too large; it states a value that the
  /// largest degree may have instead.
  template <class... Selected>
  [[nodiscard]] std::string too_many_ranks_message() const {
    layout selected;
    ((selected.degrees_[axis_index<Selected>()] = degree<Selected>()), ...);
    int const largest = std::max({degree<Selected>()...});
    std::string_view name;
    ((name = name.empty() && degree<Selected>() == largest ? Selected::name : name), ...);
    std::int64_t remaining_product = 1;
    ((remaining_product = Selected::name == name || remaining_product > max_ranks
                              ? remaining_product
                              : remaining_product * degree<Selected>()),
     ...);
    return concat(name, ' ', largest, ": ", selected.text(), " are more ranks than the ", max_ranks,
                  " that can be counted; set ", name, " to ",
                  std::max<std::int64_t>(1, max_ranks / remaining_product),
                  remaining_product > max_ranks ? ", and the others lower" : " or less");
  }

  template <class Axis>
  void propose(int ranks, std::string& out) const {
    int const other_ranks = this->ranks() / degree<Axis>();
    if (ranks >= 1 && ranks % other_ranks == 0)
      out += concat(out.empty() ? "" : " or ", Axis::name, " to ", ranks / other_ranks);
  }

  std::array<int, sizeof...(Axes)> degrees_ = filled();

  static constexpr std::array<int, sizeof...(Axes)> filled() {
    std::array<int, sizeof...(Axes)> out{};
    out.fill(1);
    return out;
  }
};

/// The layout of training runs: tensor ranks are neighbours, pipeline ranks are far apart.
using training_layout =
    layout<axis::pipeline, axis::replicate, axis::shard, axis::context, axis::tensor>;

}  // namespace parallel
