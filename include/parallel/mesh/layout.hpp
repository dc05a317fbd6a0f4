// layout: how many ranks each axis of parallelism has, and where a rank stands in it.
//
// Axes are types, outermost first: ranks that differ only in the last axis are neighbours, so the
// chattiest axis stands last. A layout is a value; `mesh` makes communicators of it.
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

/// The axes of training, each named for what ranks along it hold differently.
namespace axis {
/// Consecutive parts of the model.
struct pipeline {
  static constexpr std::string_view name = "pipeline";
};
/// Other sequences, the same shards of parameters.
struct replicate {
  static constexpr std::string_view name = "replicate";
};
/// Other sequences, other shards of parameters (ZeRO).
struct shard {
  static constexpr std::string_view name = "shard";
};
/// Other parts of the same sequences.
struct context {
  static constexpr std::string_view name = "context";
};
/// Other slices of each layer's parameters.
struct tensor {
  static constexpr std::string_view name = "tensor";
};
}  // namespace axis

/// Degrees of the axes, all 1 at first.
template <class... Axes>
class layout {
 public:
  static constexpr std::size_t axes = sizeof...(Axes);

  template <class Axis>
  static constexpr bool has = (std::same_as<Axis, Axes> || ...);

  template <class Axis>
  requires has<Axis>
  [[nodiscard]] constexpr int degree() const { return degrees_[place<Axis>()]; }

  /// This layout with another degree of one axis.
  template <class Axis>
  requires has<Axis>
  [[nodiscard]] constexpr layout with(int degree) const {
    layout out = *this;
    out.degrees_[place<Axis>()] = degree;
    return out;
  }

  /// Ranks that the layout needs.
  [[nodiscard]] constexpr int ranks() const { return size<Axes...>(); }

  /// Ranks along the product of some axes. Throws when they are more than an int counts.
  template <class... Some>
  requires(has<Some>&&...) [[nodiscard]] constexpr int size() const {
    check_degrees();
    auto const ranks = product<Some...>();
    if (ranks > most_ranks) fail(too_many<Some...>());
    return static_cast<int>(ranks);
  }

  /// Where `rank` stands along one axis.
  template <class Axis>
  requires has<Axis>
  [[nodiscard]] constexpr int coordinate(int rank) const {
    for (std::size_t i = axes; i-- > place<Axis>() + 1;) rank /= degrees_[i];
    return rank % degree<Axis>();
  }

  /// Where `rank` stands along the product of some axes: the last of the layout's axes runs
  /// fastest, in whatever order they are named here.
  template <class... Some>
  requires(has<Some>&&...) [[nodiscard]] constexpr int position(int rank) const {
    int out = 0;
    ((out = among<Axes, Some...> ? out * degree<Axes>() + coordinate<Axes>(rank) : out), ...);
    return out;
  }

  /// Which of the groups of ranks along the product of some axes `rank` belongs to.
  template <class... Some>
  requires(has<Some>&&...) [[nodiscard]] constexpr int group(int rank) const {
    int out = 0;
    ((out = among<Axes, Some...> ? out : out * degree<Axes>() + coordinate<Axes>(rank)), ...);
    return out;
  }

  /// "pipeline 2 x tensor 4", axes of degree 1 left out; "1 rank" when all are.
  [[nodiscard]] std::string text() const {
    std::string out;
    ((out += degree<Axes>() == 1
                 ? std::string()
                 : concat(out.empty() ? "" : " x ", Axes::name, ' ', degree<Axes>())),
     ...);
    return out.empty() ? "1 rank" : out;
  }

  /// Throws unless all degrees are positive.
  constexpr void check_degrees() const {
    (require(degree<Axes>() >= 1, "layout: the degree of ", Axes::name, " is ", degree<Axes>(),
             ", but must be at least 1"),
     ...);
  }

  /// Throws unless the degrees are positive and make up `ranks`; proposes a degree that would fit.
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
  template <class Axis, class... Some>
  static constexpr bool among = (std::same_as<Axis, Some> || ...);

  template <class Axis>
  static constexpr std::size_t place() {
    std::size_t i = 0;
    (void)((std::same_as<Axis, Axes> || (++i, false)) || ...);
    return i;
  }

  static constexpr std::int64_t most_ranks = std::numeric_limits<int>::max();

  /// The product of some positive degrees, or of as many of them as first exceed most_ranks.
  template <class... Some>
  [[nodiscard]] constexpr std::int64_t product() const {
    std::int64_t out = 1;  // at most most_ranks before it is multiplied by an int: no overflow
    ((out = out > most_ranks ? out : out * degree<Some>()), ...);
    return out;
  }

  /// The sentence that the product of some degrees is too large, and what the largest of them may
  /// be instead.
  template <class... Some>
  [[nodiscard]] std::string too_many() const {
    layout kept;
    ((kept.degrees_[place<Some>()] = degree<Some>()), ...);
    int const largest = std::max({degree<Some>()...});
    std::string_view name;
    ((name = name.empty() && degree<Some>() == largest ? Some::name : name), ...);
    std::int64_t others = 1;
    ((others = Some::name == name || others > most_ranks ? others : others * degree<Some>()), ...);
    return concat(name, ' ', largest, ": ", kept.text(), " are more ranks than the ", most_ranks,
                  " that can be counted; set ", name, " to ",
                  std::max<std::int64_t>(1, most_ranks / others),
                  others > most_ranks ? ", and the others lower" : " or less");
  }

  template <class Axis>
  void propose(int ranks, std::string& out) const {
    int const others = this->ranks() / degree<Axis>();
    if (ranks >= 1 && ranks % others == 0)
      out += concat(out.empty() ? "" : " or ", Axis::name, " to ", ranks / others);
  }

  std::array<int, sizeof...(Axes)> degrees_ = filled();

  static constexpr std::array<int, sizeof...(Axes)> filled() {
    std::array<int, sizeof...(Axes)> out{};
    out.fill(1);
    return out;
  }
};

/// The layout of training runs: tensor ranks are neighbours, pipeline ranks far apart.
using training_layout =
    layout<axis::pipeline, axis::replicate, axis::shard, axis::context, axis::tensor>;

}  // namespace parallel
