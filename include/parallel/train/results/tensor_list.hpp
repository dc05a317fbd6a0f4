// tensor_list: the trained tensors of a whole model, wherever their slices are: what is counted per
// tensor or row has the same number in it on every rank.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <parallel/core/parameter.hpp>
#include <parallel/unit/unit.hpp>

namespace parallel::train {

class tensor_list {
 public:
  /// A tensor's name and shape.
  struct tensor {
    std::string name;
    std::vector<index> extents;
  };

  /// Adds the trained tensors, by `key_of`, that `layer` declares. A slice declares its tensor; a
  /// tensor that has several slices on this rank is listed once.
  template <class T, class Layer, class KeyOf>
  void add(Layer& layer, KeyOf const& key_of) {
    visit_parameters_of(layer, [&](parameter_base<T> const& p) {
      if (!key_of(p.name).trainable || numbers_.contains(p.name)) return;
      numbers_[p.name] = tensors_.size();
      tensors_.push_back({p.name, p.tensor_extents()});
    });
  }

  [[nodiscard]] std::vector<tensor> const& tensors() const { return tensors_; }
  [[nodiscard]] std::size_t size() const { return tensors_.size(); }
  [[nodiscard]] std::size_t number_of(std::string const& name) const { return numbers_.at(name); }

 private:
  std::vector<tensor> tensors_;
  std::map<std::string, std::size_t> numbers_;
};

}  // namespace parallel::train
