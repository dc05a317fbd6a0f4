// mesh: a world of ranks arranged along axes, and communicators along them.
#pragma once

#include <string>
#include <utility>

#include <parallel/comm/coloring.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/mesh/layout.hpp>

namespace parallel {

/// `Comm` connects all ranks; `Layout` is a `layout<Axes...>` of as many.
template <has_split Comm, class Layout = training_layout>
class mesh {
 public:
  /// Owns `world`. Throws, before anything is sent, when the layout does not fit its size.
  mesh(Comm world, Layout shape) : world_(std::move(world)), shape_(shape) {
    shape_.check(world_.size());
  }

  [[nodiscard]] Comm& world() { return world_; }
  [[nodiscard]] Layout const& shape() const { return shape_; }

  /// This rank's place along one axis, and how many ranks that axis has.
  template <class Axis>
  [[nodiscard]] int rank() const {
    return shape_.template coordinate<Axis>(world_.rank());
  }
  template <class Axis>
  [[nodiscard]] int size() const {
    return shape_.template degree<Axis>();
  }

  /// A communicator of the ranks that differ from this one only along `Axes`: one axis, or the
  /// product of several, whose last in the layout runs fastest. Collective over the whole mesh:
  /// every rank calls it for the same axes in the same order, at the start. Who belongs to a group
  /// follows from the coordinates: nobody is asked.
  template <class... Axes>
  [[nodiscard]] Comm along() {
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
