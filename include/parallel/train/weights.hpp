// weights: a model's parameters alone, without gradients and optimizer: for evaluation, generation
// and conversion. Memory: the parameters once.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <parallel/device/buffer.hpp>
#include <parallel/train/model.hpp>
#include <parallel/unit/unit.hpp>

namespace parallel::train {

template <class T>
class weights {
 public:
  /// Allocates on `device` and binds `model`, which must stay where it is.
  template <class Model, class Device>
  weights(Model& model, Device& device) {
    model.visit_units([&](std::string name, auto& layer, std::vector<part> const&,
                          std::vector<parameter_base<T>*> const& uses) {
      unit<T> layout(std::move(name), layer, 1);
      for (auto* const use : uses) layout.add_use(*use);
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

  /// Calls f(parameter, values) for every parameter; tied ones once.
  template <class F>
  void for_each(F&& f) const {
    for (auto const& [parameter, values] : parameters_) f(*parameter, values);
  }

 private:
  std::vector<buffer<T>> storage_;
  std::vector<std::pair<parameter_base<T> const*, std::span<T>>> parameters_;
};

}  // namespace parallel::train
