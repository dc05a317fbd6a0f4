// weights: a model's parameters alone, without gradients and optimizer: for evaluation, generation
// and conversion. Memory: the parameters once.
#pragma once

#include <concepts>
#include <string>
#include <utility>
#include <vector>

#include <parallel/device/buffer.hpp>
#include <parallel/device/concepts.hpp>
#include <parallel/train/trainable.hpp>
#include <parallel/unit/unit.hpp>

namespace parallel::train {

namespace detail {

template <class Device>
struct require_memory {
  static_assert(memory_device<Device>,
                "the device lacks what parallel::memory_device (parallel/device/concepts.hpp) asks "
                "for");
  static constexpr bool value = memory_device<Device>;
};
template <class M, class T>
struct require_elements {
  static_assert(std::same_as<typename M::element, T>,
                "the model's elements are of another type; give weights<T> the model's element as "
                "T");
  static constexpr bool value = std::same_as<typename M::element, T>;
};

}  // namespace detail

/// A model of elements T; for another one, the compiler says what it lacks.
template <class M, class T>
concept checked_weights = checked_units<M, T> && detail::require_elements<M, T>::value;
/// A device with memory; for another one, the compiler says what it lacks.
template <class D>
concept checked_memory = detail::require_memory<D>::value;

template <class T>
class weights {
 public:
  /// Allocates the parameters on `device` and binds `model` to them; the model must not move.
  template <checked_weights<T> Model, checked_memory Device>
  weights(Model& model, Device& device) {
    model.visit_units([&](std::string name, auto& layer, std::vector<part> const& parts,
                          std::vector<parameter_base<T>*> const& uses) {
      unit<T> layout(std::move(name), layer, 1);
      layout.add_uses(parts.size(), uses);
      for (std::size_t s = 0; s < layout.segments().size(); ++s) {
        auto values =
            device.template allocate_zeroed<T>(static_cast<std::size_t>(layout.segments()[s].size));
        layout.bind_values(s, values.data());
        for (auto const& placed : layout.segments()[s].parameters)
          parameters_.push_back({placed.parameter,
                                 {values.data() + placed.offset,
                                  static_cast<std::size_t>(placed.parameter->size())}});
        storage_.push_back(std::move(values));
      }
    });
  }

  /// For a model or a device that lacks something: nothing follows the compiler's sentence.
  template <class Model, class Device>
  weights(Model&, Device&) {}

  /// Calls f(parameter, values) for every parameter; for tied parameters once.
  template <class F>
  void for_each(F&& f) const {
    for (auto const& [parameter, values] : parameters_) f(*parameter, values);
  }

 private:
  std::vector<buffer<T>> storage_;
  std::vector<std::pair<parameter_base<T> const*, std::span<T>>> parameters_;
};

}  // namespace parallel::train
