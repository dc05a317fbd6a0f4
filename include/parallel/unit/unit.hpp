// unit: parameters that are sharded, gathered, reduced and saved together, in one flat layout.
//
// A unit is typically one transformer block, or a tied embedding. Its parameters are divided into
// segments (by trainable or frozen, and by optimizer group). Each segment is one flat range, padded
// so that it divides evenly among the ranks. A frozen segment has values but no gradients and no
// optimizer state. Buckets, ZeRO shards, optimizer spans and checkpoint slices are all ranges of a
// segment. Padding is never stored in a file.
//
// Several parts of a model can use the same values: as a tied parameter, which each part declares
// in its own layer, or as a layer that the parts share. Each use has its gradients, which are
// added: in one buffer, or after their reduction.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/core/parameter.hpp>

namespace parallel {

/// The properties that all parameters of one segment share. The trainer chooses the first two
/// members; the last is a property of the parameter.
struct segment_key {
  bool trainable = true;
  int group = 0;  ///< optimizer group
  parameter_replication replication = {};
  friend auto operator<=>(segment_key const&, segment_key const&) = default;
};

/// Gives every parameter the same key, for models whose parameters are all trained alike.
struct one_segment {
  [[nodiscard]] segment_key operator()(std::string const& /*name*/) const { return {}; }
};

/// A parameter and its offset in its segment.
template <class T>
struct placed_parameter {
  parameter_base<T>* parameter;
  index offset;  ///< of its first element in the segment
};

/// One flat range of parameters; the elements between and after them are padding.
template <class T>
struct segment {
  segment_key key;
  std::vector<placed_parameter<T>> parameters;
  index size = 0;  ///< elements, padding included

  /// Calls f(parameter, first, last, offset) for each parameter that overlaps the range [begin,
  /// end) of the segment: the parameter's elements [first, last) begin at `offset` in the segment.
  template <class F>
  void for_each_piece(index begin, index end, F&& f) const {
    for (auto const& [parameter, offset] : parameters) {
      index const first = std::max(begin, offset);
      index const last = std::min(end, offset + parameter->size());
      if (first < last) f(*parameter, first - offset, last - offset, first);
    }
  }
};

template <class T>
class unit {
 public:
  using gradient_type = accumulate_t<T>;

  /// Every parameter starts at a multiple of this many elements (a cache line of bf16).
  static constexpr index alignment = 32;

  /// Lays out the parameters that `layer.visit_parameters` passes, each in the segment with the key
  /// `key_of(name)`, and marks the frozen ones. Each segment's size is rounded up to a multiple of
  /// `ranks * alignment`. The layer must not move afterwards.
  template <class Layer, class KeyOf = one_segment>
  unit(std::string name, Layer& layer, index ranks, KeyOf const& key_of = {})
      : name_(std::move(name)) {
    require(ranks > 0, "unit ", name_, ": number of ranks must be positive");
    visit_parameters_of(layer, [&](parameter_base<T>& parameter) {
      segment_key key = key_of(parameter.name);
      key.replication = parameter.replication;
      add_parameter(parameter, key);
    });
    for (auto& part : segments_) part.size = round_up(part.size, ranks * alignment);
  }

  /// The number of neighbours among the data ranks that hold other experts of the layer; the same
  /// for all parameters of a layer, or this throws.
  template <class Layer>
  [[nodiscard]] static int expert_ranks_of(Layer& layer) {
    int ranks = 0;
    visit_parameters_of(layer, [&](parameter_base<T>& parameter) {
      require(ranks == 0 || ranks == parameter.expert_ranks, "parameter ", parameter.name,
              " is divided among ", parameter.expert_ranks,
              " ranks of experts, but others of its unit among ", ranks,
              "; a model shows experts as units of their own (visit_units)");
      ranks = parameter.expert_ranks;
    });
    return std::max(ranks, 1);
  }
  [[nodiscard]] int expert_ranks() const {
    return segments_.empty() ? 1 : segments_.front().parameters.front().parameter->expert_ranks;
  }

  /// Declares another use of this unit's single parameter, by another part.
  void add_use(parameter_base<T>& alias) {
    require(segments_.size() == 1 && segments_[0].parameters.size() == 1, "unit ", name_,
            ": only a unit of one parameter can be tied");
    auto const& original = *segments_[0].parameters[0].parameter;
    require(original.extents == alias.extents, "unit ", name_, ": tied parameters differ in shape");
    alias.trainable = original.trainable;
    uses_.push_back(&alias);
  }

  /// Declares the uses that Model::visit_units shows: tied parameters of other parts, or else
  /// `parts` parts that compute with the layer itself.
  void add_uses(std::size_t parts, std::vector<parameter_base<T>*> const& tied) {
    for (auto* const use : tied) add_use(*use);
    if (tied.empty()) parts_ = parts;
  }

  /// Declares that the last use is the exit of a model, whose gradients are the first of a step.
  void end_at_exit() { ends_at_exit_ = true; }
  [[nodiscard]] bool ends_at_exit() const { return ends_at_exit_; }

  [[nodiscard]] std::string const& name() const { return name_; }
  [[nodiscard]] std::vector<segment<T>> const& segments() const { return segments_; }

  /// The number of uses of the values, each by another part of the model.
  [[nodiscard]] std::size_t uses() const { return parts_ + uses_.size(); }

  /// Elements of all segments, padding included.
  [[nodiscard]] index size() const {
    index total = 0;
    for (auto const& part : segments_) total += part.size;
    return total;
  }

  /// Elements of the segments that have gradients, padding included.
  [[nodiscard]] index trainable_size() const {
    index total = 0;
    for (auto const& part : segments_) total += part.key.trainable ? part.size : 0;
    return total;
  }

  /// Calls f(parameter, offset) for the parameters of segment `s`, as use number `use` declares
  /// them.
  template <class F>
  void for_each_parameter(std::size_t s, std::size_t use, F&& f) const {
    for (auto const& [parameter, offset] : segments_[s].parameters)
      f(declared_by(use, *parameter), offset);
  }

  /// Binds the layer's parameters of segment `s` to flat memory for values.
  void bind_values(std::size_t s, T* values) {
    for (auto const& [parameter, offset] : segments_[s].parameters) {
      parameter->data = values + offset;
      for (auto* const use : uses_) use->data = values + offset;
    }
  }

  /// Binds the gradients of use `use` of segment `s` to flat memory.
  void bind_gradients(std::size_t s, std::size_t use, gradient_type* gradients) {
    for (auto const& [parameter, offset] : segments_[s].parameters)
      declared_by(use, *parameter).gradient_data = gradients + offset;
  }

 private:
  static index round_up(index value, index multiple) {
    return (value + multiple - 1) / multiple * multiple;
  }

  [[nodiscard]] parameter_base<T>& declared_by(std::size_t use, parameter_base<T>& first) const {
    return use < parts_ ? first : *uses_[use - parts_];
  }

  void add_parameter(parameter_base<T>& parameter, segment_key key) {
    auto part = std::ranges::find(segments_, key, &segment<T>::key);
    if (part == segments_.end()) part = segments_.insert(part, segment<T>{key, {}, 0});
    parameter.trainable = key.trainable;
    part->parameters.push_back({&parameter, part->size});
    part->size += round_up(parameter.size(), alignment);
  }

  std::string name_;
  std::vector<segment<T>> segments_;
  std::size_t parts_ = 1;  // the number of parts that compute with the layer itself
  std::vector<parameter_base<T>*> uses_;
  bool ends_at_exit_ = false;
};

}  // namespace parallel
