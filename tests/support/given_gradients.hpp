// A model with given gradients, for tests of the steps that follow the backward pass.
#pragma once

#include <algorithm>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <parallel/ops/custom.hpp>
#include <parallel/optim/concepts.hpp>
#include <parallel/train/model.hpp>

namespace test {

using parallel::index;

/// A tensor and its gradient.
template <class T>
struct given_tensor {
  std::string name;
  std::vector<index> extents;
  std::vector<T> weights;
  std::vector<T> gradient;
};

/// A microbatch adds `factor` times the given gradients, `factor` to the loss and `tokens` to the
/// tokens; one of factor 0 is empty.
template <class T>
struct given_microbatch {
  T factor = 1;
  std::int64_t tokens = 1;
};

template <class T>
class given_gradients {
 public:
  using element = T;
  using microbatch = given_microbatch<T>;
  struct block {
    struct saved {};
    template <class C>
    parallel::matrix_view<T> forward(C&, parallel::matrix_view<T const>, saved&) const {
      return {};
    }
    template <class C>
    parallel::matrix_view<T> backward_input(C&, parallel::matrix_view<T const>, saved&) const {
      return {};
    }
    template <class C>
    void backward_weight(C&, saved const&) const {}
  };

  /// slice(parameter) turns a whole parameter into this rank's slice of it.
  template <class Slice = void (*)(parallel::parameter_base<T>&)>
  explicit given_gradients(
      std::vector<given_tensor<T>> tensors, Slice&& slice = [](auto&) {})
      : tensors_(std::move(tensors)) {
    for (auto const& tensor : tensors_) {
      auto& p = parameters_.emplace_back();
      p.name = tensor.name;
      p.extents = tensor.extents;
      slice(p);
    }
  }

  /// Replaces the gradient of tensor `i`.
  void set_gradient(std::size_t i, std::vector<T> gradient) {
    tensors_[i].gradient = std::move(gradient);
  }

  [[nodiscard]] std::size_t num_blocks() const { return 0; }
  [[nodiscard]] block const& at(std::size_t) const { return block_; }
  [[nodiscard]] index rows(microbatch const& b) const { return b.factor != 0 ? 1 : 0; }
  [[nodiscard]] index sequence(microbatch const&) const { return 1; }
  [[nodiscard]] index width() const { return 1; }

  template <class F>
  void visit_units(F&& f) {
    f(std::string("all"), *this, std::vector<index>{parallel::train::embed},
      std::vector<parallel::parameter_base<T>*>{});
  }
  void visit_parameters(auto&& visit) {
    for (auto& p : parameters_) visit(p);
  }

  template <class Stream>
  parallel::matrix_view<T> embed(parallel::context<Stream>& c, microbatch const&) const {
    return c.template allocate<T, 2>({1, 1});
  }
  template <class Stream>
  void head_loss(parallel::context<Stream>&, microbatch const& b, parallel::matrix_view<T const>,
                 parallel::matrix_view<T>,
                 parallel::train::statistics<parallel::train::loss_type<T>>& sums) const {
    sums.tokens += b.tokens;
    sums.loss += b.factor;
  }
  template <class Stream>
  void enter_backward(parallel::context<Stream>& c, microbatch const& b,
                      parallel::matrix_view<T const>) const {
    for (std::size_t i = 0; i < tensors_.size(); ++i)
      parallel::ops::custom(
          c.stream,
          [](auto sums, parallel::parameter_base<T> const* p, T const* gradient, T factor) {
            p->for_each_run(0, p->size(), [&](index first, index count, index global) {
              for (index k = 0; k < count; ++k)
                sums[static_cast<std::size_t>(first + k)] += factor * gradient[global + k];
            });
          },
          parallel::ops::updates(std::span(parameters_[i].gradient_data,
                                           static_cast<std::size_t>(parameters_[i].size()))),
          &parameters_[i], tensors_[i].gradient.data(), b.factor);
  }

  /// Copies the given weights into a stepper, whose master weights have type T.
  template <class Stepper>
  void set_weights(Stepper& step) const {
    for_each_held(step, [&](std::size_t tensor, index first, std::span<T> held) {
      std::copy_n(tensors_[tensor].weights.begin() + first, held.size(), held.begin());
    });
    step.mark_initialised();
  }

  /// Calls f(tensor, first, values) for each run of elements of a tensor that the stepper of this
  /// rank holds; the run begins at element `first`.
  template <class Stepper, class F>
  void for_each_held(Stepper& step, F&& f) const {
    for (auto const& unit : step.units())
      for (std::size_t s = 0; s < unit.memory.segments().size(); ++s) {
        auto const& m = unit.memory.segments()[s];
        auto const& segment = unit.memory.layout().segments()[s];
        index const begin = unit.memory.parameters_sharded() ? m.owned.begin : 0;
        auto const visit = [&](auto const& p, index first, index last, index memory_offset) {
          auto const tensor = std::ranges::find(tensors_, p.name, &given_tensor<T>::name);
          p.for_each_run(first, last, [&](index begin_of_run, index count, index global) {
            f(static_cast<std::size_t>(tensor - tensors_.begin()), global,
              m.values.span().subspan(
                  static_cast<std::size_t>(memory_offset - begin + begin_of_run - first),
                  static_cast<std::size_t>(count)));
          });
        };
        segment.for_each_piece(begin, begin + static_cast<index>(m.values.size()), visit);
      }
  }

 private:
  std::vector<given_tensor<T>> tensors_;
  std::deque<parallel::parameter_base<T>> parameters_;
  block block_;
};

/// p -= scale * g.
struct plain_descent {
  [[nodiscard]] static std::span<std::string_view const> state_names() { return {}; }

  template <class Stream, class T, parallel::reduced_gradient Gradient>
  void update(Stream& s, parallel::update_ranges<T, Gradient> const& ranges,
              parallel::step_info<parallel::accumulate_t<T>> const& info) const {
    s.enqueue([values = ranges.values, gradients = ranges.gradients.elements,
               scale = info.gradient_scale] {
      for (std::size_t i = 0; i < values.size(); ++i) values[i] -= *scale * gradients[i];
    });
  }
};

}  // namespace test
