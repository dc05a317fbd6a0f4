// mesh: all ranks arranged along axes, and communicators along those axes.
#pragma once

#include <string>
#include <utility>

#include <parallel/comm/coloring.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/mesh/layout.hpp>

namespace parallel {

/// `Comm` connects all ranks; `Layout` is a `layout<Axes...>` with the same number of ranks.
template <has_split Comm, class Layout = training_layout>
class mesh {
 public:
  /// Takes ownership of `world`. Throws `error`, before anything is sent, unless the layout fits
  /// its size.
  mesh(Comm world, Layout shape) : world_(std::move(world)), shape_(shape) {
    shape_.check(world_.size());
  }

  [[nodiscard]] Comm& world() { return world_; }
  [[nodiscard]] Layout const& shape() const { return shape_; }

  /// This rank's coordinate along one axis, and the number of ranks along that axis.
  template <class Axis>
  [[nodiscard]] int rank() const {
    return shape_.template coordinate<Axis>(world_.rank());
  }
  template <class Axis>
  [[nodiscard]] int size() const {
    return shape_.template degree<Axis>();
  }

  /// Creates the communicator of the ranks that differ from this one only along `Axes`: one axis,
  /// or the product of several, of which the layout's last varies fastest. This is collective over
  /// the whole mesh: every rank calls it for the same axes in the same order, at the start. The
  /// members of each group follow from the coordinates, so choosing them needs no communication.
  template <class... Axes>
  [[nodiscard]] Comm split_along() {
    std::string name;
    ((name += concat(name.empty() ? "" : " x ", Axes::name)), ...);
    return world_.split(
        coloring([shape = shape_](int rank) { return shape.template group<Axes...>(rank); }),
        std::move(name));
  }

 private:
  Comm world_;
  Layout shape_;
};

}  // namespace parallel
