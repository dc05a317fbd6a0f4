// check_model: compares the gradients of a whole model, entry and loss included, with finite
// differences of its loss.
//
// For a random direction v of a parameter, the change of the summed loss is <gradient, v>. It is
// compared with central differences of fourth order, as check_layer does for a layer alone
// (layer/check.hpp). Cost: two training passes, and eight forward passes for each parameter.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/core/parameter.hpp>
#include <parallel/ops/reference.hpp>
#include <parallel/train/setup/stage.hpp>

namespace parallel {

struct check_model_options {
  double difference = 1e-3;    ///< h, in units of the parameter's own values
  double tolerance = 1e-7;     ///< of a difference, relative to the gradient's length
  position run_position = {};  ///< seeds dropout, the parameters' initial values, and directions
  std::size_t arena_bytes = std::size_t{64} << 20;
};

/// What check_model has compared.
struct check_model_result {
  index compared = 0;       ///< number of directions
  double difference = 0.0;  ///< the largest, relative to the gradient's length
};

namespace detail {

/// A model whose parameters are bound to memory of their own while this lives.
template <class Model>
class bound_model {
 public:
  using parameter_type = parameter_base<double>;

  struct bound_parameter {
    parameter_type* parameter;
    std::string unit;
    std::vector<double> values, gradients;
  };

  bound_model(Model& model, std::uint64_t seed) {
    model.visit_units([&](std::string const& unit, auto& layer, std::vector<train::part> const&,
                          std::vector<parameter_type*> const& uses) {
      visit_parameters_of(layer, [&](parameter_type& p) {
        auto const count = static_cast<std::size_t>(p.size());
        auto& bound = parameters_.emplace_back(
            bound_parameter{&p, unit, std::vector<double>(count), std::vector<double>(count)});
        initial_values(std::span<double>(bound.values), p.name, p.initial, seed, 0);
        bind(p, bound);
        for (auto* const use : uses) bind(*use, bound);
      });
    });
  }
  bound_model(bound_model&&) = delete;
  ~bound_model() {
    for (auto const& [p, values, gradients] : bindings_) {
      p->data = values;
      p->gradient_data = gradients;
    }
  }

  [[nodiscard]] std::deque<bound_parameter>& parameters() { return parameters_; }

  /// Throws unless every gradient is this many times what it was in `expected`, by parameter.
  void require_gradients(double times, std::vector<std::vector<double>> const& expected,
                         double tolerance, std::string_view reason) const {
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      double largest = 1e-3;
      for (double const g : expected[p]) largest = std::max(largest, std::fabs(g));
      for (std::size_t i = 0; i < expected[p].size(); ++i)
        require(
            std::fabs(parameters_[p].gradients[i] - times * expected[p][i]) <= tolerance * largest,
            "check_model: unit \"", parameters_[p].unit, "\": parameter \"",
            parameters_[p].parameter->name, "\": ", reason, ": element ", i, " is ",
            parameters_[p].gradients[i], ", not ", times * expected[p][i]);
    }
  }
  [[nodiscard]] std::vector<std::vector<double>> gradients() const {
    std::vector<std::vector<double>> out;
    for (auto const& bound : parameters_) out.push_back(bound.gradients);
    return out;
  }

 private:
  struct binding {
    parameter_type* parameter;
    double* values;
    double* gradients;
  };

  void bind(parameter_type& p, bound_parameter& memory) {
    bindings_.push_back({&p, p.data, p.gradient_data});
    p.data = memory.values.data();
    p.gradient_data = memory.gradients.data();
  }

  std::deque<bound_parameter> parameters_;
  std::vector<binding> bindings_;
};

/// Runs a model's passes on the reference device.
template <class Model>
class model_passes {
 public:
  using microbatch = typename Model::microbatch;

  model_passes(Model& model, microbatch const& batch, check_model_options const& options)
      : model_(model), batch_(batch), options_(options), memory_(options.arena_bytes) {}

  /// The summed loss of the microbatch; in training the gradients are added to.
  [[nodiscard]] double loss(bool with_gradients) { return sums(with_gradients).loss; }

  [[nodiscard]] train::statistics<double> sums(bool with_gradients) {
    arena memory(buffer<std::byte>(nullptr, memory_.data(), memory_.size()));
    reference::stream stream;
    auto c =
        train::context_of(model_, stream, memory, pass::training, options_.run_position, batch_);
    auto const blocks = static_cast<train::part>(model_.num_blocks());
    train::stage_activations<Model> activations;
    activations.blocks.assign(model_.num_blocks(), {});
    auto const saved = [&](train::part p) -> auto& {
      return activations.blocks[static_cast<std::size_t>(p)];
    };
    auto const block = [&](train::part p) -> auto& {
      return model_.at(static_cast<std::size_t>(p));
    };
    if constexpr (train::has_shared_activations<Model>) {
      activations.shared = model_.make_shared_activations(c, batch_, 0, blocks);
      for (train::part p = 0; p < blocks; ++p) model_.attach(activations.shared, p, saved(p));
    }
    matrix_view<double const> x = model_.embed(c, batch_);
    for (train::part p = 0; p < blocks; ++p) x = block(p).forward(c, x, saved(p));
    matrix_view<double> dx;
    if (with_gradients) dx = c.template allocate<double, 2>({model_.rows(batch_), model_.width()});
    train::statistics<double> sums;
    model_.head_loss(c, batch_, x, dx, sums);
    if (!with_gradients) return sums;
    matrix_view<double const> gradient = dx;
    for (train::part p = blocks; p-- > 0;) {
      gradient = block(p).backward_input(c, gradient, saved(p));
      block(p).backward_weight(c, saved(p));
    }
    model_.enter_backward(c, batch_, gradient);
    return sums;
  }

 private:
  Model& model_;
  microbatch const& batch_;
  check_model_options options_;
  std::vector<std::byte> memory_;
};

}  // namespace detail

/// Checks the gradients of every trainable parameter of `model`, in the entry, the blocks and the
/// exit, for one microbatch: they must be those of the summed loss that head_loss adds to its
/// statistics. The parameters are bound to initial values for the time of the check. Throws `error`
/// that names the unit, the parameter and both numbers. The model's elements are double.
///
///     parallel::check_model(model, batch);
template <class Model>
check_model_result check_model(Model& model, typename Model::microbatch const& batch,
                               check_model_options const& options = {}) {
  static_assert(std::is_same_v<typename Model::element, double>,
                "differences need the precision of double");
  detail::bound_model<Model> bound(model, options.run_position.seed);
  detail::model_passes<Model> passes(model, batch, options);
  double const loss = passes.loss(true);
  require(std::isfinite(loss), "check_model: the loss is ", loss);
  auto const first_gradients = bound.gradients();
  require(loss == passes.loss(true),
          "check_model: the same microbatch gives another loss when it is computed again; random "
          "numbers come from context::random, and a layer keeps nothing between passes");
  bound.require_gradients(2, first_gradients, options.tolerance,
                          "its gradient is not added to by a second backward pass, as a step's "
                          "later microbatches must");
  require(loss == passes.loss(false),
          "check_model: head_loss adds another loss when dx is empty, as in an evaluation");
  check_model_result result;
  auto gradients_of_parameter = first_gradients.begin();
  for (auto& checked : bound.parameters()) {
    auto const& gradients = *gradients_of_parameter++;
    if (!checked.parameter->trainable) continue;
    for (std::string_view const direction : {"check_model.first", "check_model.second"}) {
      auto& values = checked.values;
      auto const count = values.size();
      std::vector<double> v(count);
      initial_values(std::span<double>(v), concat(direction, checked.parameter->name),
                     normal_init{1.0F}, options.run_position.seed, 0);
      double written = 0.0, squares = 0.0;
      for (std::size_t i = 0; i < count; ++i) {
        written += gradients[i] * v[i];
        squares += gradients[i] * gradients[i];
      }
      auto const original = values;
      auto const loss_at = [&](double steps) {
        for (std::size_t i = 0; i < count; ++i)
          values[i] = original[i] + steps * options.difference * v[i];
        double const changed_loss = passes.loss(false);
        values = original;
        return changed_loss;
      };
      double const measured =
          (8.0 * (loss_at(1.0) - loss_at(-1.0)) - (loss_at(2.0) - loss_at(-2.0))) /
          (12.0 * options.difference);
      double const length = std::max(1e-3, std::sqrt(squares));
      double const difference = std::fabs(written - measured) / length;
      require(difference <= options.tolerance, "check_model: unit \"", checked.unit,
              "\": parameter \"", checked.parameter->name,
              "\": the backward pass gives the loss the slope ", written,
              " along a random direction, but differences of the loss give ", measured);
      result.difference = std::max(result.difference, difference);
      ++result.compared;
    }
  }
  return result;
}

/// The same, and that the model adds up: `parts`, which are the sequences of `whole` in several
/// microbatches, have together its loss, tokens and gradients. A loss that is divided by the rows
/// of its microbatch, or a layer that mixes sequences, is refused.
template <class Model>
check_model_result check_model(Model& model, typename Model::microbatch const& whole,
                               std::span<typename Model::microbatch const> parts,
                               check_model_options const& options = {}) {
  auto const result = check_model(model, whole, options);
  detail::bound_model<Model> expected(model, options.run_position.seed);
  auto const sums = detail::model_passes<Model>(model, whole, options).sums(true);
  detail::bound_model<Model> bound(model, options.run_position.seed);
  train::statistics<double> of_parts;
  auto part_options = options;
  for (auto const& part : parts) {
    auto const part_sums = detail::model_passes<Model>(model, part, part_options).sums(true);
    of_parts.loss += part_sums.loss;
    of_parts.tokens += part_sums.tokens;
    part_options.run_position.first_sequence +=
        static_cast<std::uint64_t>(model.rows(part) / model.sequence(part));
  }
  require(of_parts.tokens == sums.tokens, "check_model: ", parts.size(), " microbatches count ",
          of_parts.tokens, " tokens, but the same sequences in one ", sums.tokens);
  require(std::fabs(of_parts.loss - sums.loss) <= options.tolerance * std::fabs(sums.loss),
          "check_model: the losses of ", parts.size(), " microbatches add up to ", of_parts.loss,
          ", but the same sequences in one have ", sums.loss,
          "; head_loss adds the losses of its rows and divides by nothing, since the optimizer "
          "divides by the tokens of the whole batch");
  bound.require_gradients(1, expected.gradients(), options.tolerance,
                          "microbatches add another gradient than their sequences in one");
  return result;
}

}  // namespace parallel
