// tensor_list: the trained tensors of a whole model, wherever their slices are: what is counted per
// tensor or row has a place in it on every rank.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <parallel/core/parameter.hpp>
#include <parallel/unit/unit.hpp>

namespace parallel::train {

class tensor_list {
 public:
  struct tensor {
    std::string name;
    std::vector<index> extents;
  };

  /// Adds what `layer` declares and `key_of` says is trained. A slice declares its tensor; one that
  /// has several slices here is listed once.
  template <class T, class Layer, class KeyOf>
  void add(Layer& layer, KeyOf const& key_of) {
    visit_parameters_of(layer, [&](parameter_base<T> const& p) {
      if (!key_of(p.name).trainable || places_.contains(p.name)) return;
      places_[p.name] = tensors_.size();
      tensors_.push_back({p.name, p.tensor_extents()});
    });
  }

  [[nodiscard]] std::vector<tensor> const& tensors() const { return tensors_; }
  [[nodiscard]] std::size_t size() const { return tensors_.size(); }
  [[nodiscard]] std::size_t place(std::string const& name) const { return places_.at(name); }

 private:
  std::vector<tensor> tensors_;
  std::map<std::string, std::size_t> places_;
};

}  // namespace parallel::train
