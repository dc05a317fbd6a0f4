// callback: a small component that watches a run and may log, print a line, or stop the run.
//
// Every rank has its own callbacks, and all receive the same numbers, sums over the whole batch, so
// that all ranks decide alike without communication. A callback's state is saved in the checkpoint,
// so that a resumed run stops where the uninterrupted run would have.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <parallel/core/error.hpp>
#include <parallel/train/results/tensor_squares.hpp>

namespace mpt {

/// The results of a training step.
struct batch_result {
  std::int64_t batch = 0;  ///< finished batches, this one included
  std::int64_t epoch = 0;  ///< finished epochs
  bool ends_epoch = false;
  double loss = 0;  ///< mean over the batch's loss tokens
  double accuracy = 0;
  double gradient_norm = 0;
  double gradient_scale = 1;  ///< from the summed gradient to the clipped mean
  std::vector<parallel::train::tensor_squares<double>> const* tensors = nullptr;  ///< may be empty
  std::vector<double> const* record = nullptr;  ///< step_result::record; may be empty
  double loss_tokens = 1;
};

/// One finished evaluation set.
struct evaluation_report {
  std::string label;  ///< "" when there is only one set
  std::int64_t batch = 0;
  std::int64_t epoch = 0;
  double loss = 0;
  double accuracy = 0;
};

/// The actions that a callback can take on a run.
class run_control {
 public:
  /// `speak` prints a line; on ranks that print nothing it does nothing.
  explicit run_control(std::function<void(std::string const&)> speak) : speak_(std::move(speak)) {}

  void say(std::string const& text) const { speak_(text); }

  /// Adds a number or a text to the log record of this batch.
  void log(std::string const& name, double value) { numbers_.emplace_back(name, value); }
  void log(std::string const& name, std::string text);

  /// Requests that the next batch measures every tensor.
  void measure_tensors() { is_measuring_ = true; }

  /// Ends the run after this batch.
  void stop(std::string const& reason);

  [[nodiscard]] bool is_stopped() const { return is_stopped_; }
  [[nodiscard]] bool is_measuring() const { return is_measuring_; }
  [[nodiscard]] auto const& numbers() const { return numbers_; }
  [[nodiscard]] auto const& texts() const { return texts_; }

  /// Resets everything that belongs to one batch; called before the next.
  void clear();

 private:
  std::function<void(std::string const&)> speak_;
  std::vector<std::pair<std::string, double>> numbers_;
  std::vector<std::pair<std::string, std::string>> texts_;
  bool is_measuring_ = false;
  bool is_stopped_ = false;
};

/// C handles the beginning of a batch.
template <class C>
concept handles_batch_begin = requires(C& c, run_control& run, std::int64_t batch) {
  c.batch_begin(run, batch);  // the batch's number, from 1
};
/// C handles the end of a batch.
template <class C>
concept handles_batch_end = requires(C& c, run_control& run, batch_result const& result) {
  c.batch_end(run, result);
};
/// C handles the end of an evaluation.
template <class C>
concept handles_evaluation_end = requires(C& c, run_control& run, evaluation_report const& result) {
  c.evaluation_end(run, result);
};
/// C has a state that checkpoints store.
template <class C>
concept has_state = requires(C& c, C const& cc, nlohmann::json const& saved) {
  { cc.state() } -> std::same_as<nlohmann::json>;
  c.restore(saved);
};

/// A callback has LLM Foundry's name and handles at least one event.
template <class C>
concept callback = requires {
  { C::name } -> std::convertible_to<std::string_view>;
}
&&(handles_batch_begin<C> || handles_batch_end<C> || handles_evaluation_end<C>);

/// A fixed list of callbacks, each of which may be absent. Events reach them in the list's order.
template <callback... Callbacks>
class callback_list {
 public:
  explicit callback_list(std::optional<Callbacks>... callbacks)
      : callbacks_(std::move(callbacks)...) {}

  void batch_begin(run_control& run, std::int64_t batch) {
    for_each([&](auto& c) {
      if constexpr (handles_batch_begin<std::decay_t<decltype(c)>>) c.batch_begin(run, batch);
    });
  }
  void batch_end(run_control& run, batch_result const& result) {
    for_each([&](auto& c) {
      if constexpr (handles_batch_end<std::decay_t<decltype(c)>>) c.batch_end(run, result);
    });
  }
  void evaluation_end(run_control& run, evaluation_report const& result) {
    for_each([&](auto& c) {
      if constexpr (handles_evaluation_end<std::decay_t<decltype(c)>>)
        c.evaluation_end(run, result);
    });
  }

  /// The states of all callbacks that have one, by name.
  [[nodiscard]] nlohmann::json state() {
    auto out = nlohmann::json::object();
    for_each([&](auto& c) {
      using type = std::decay_t<decltype(c)>;
      if constexpr (has_state<type>) out[std::string(type::name)] = std::as_const(c).state();
    });
    return out;
  }

  /// Restores the callbacks whose state is in `saved`, which comes from a file; the others start
  /// anew. A restored callback may stop the run immediately.
  void restore(run_control& run, nlohmann::json const& saved) {
    for_each([&](auto& c) {
      using type = std::decay_t<decltype(c)>;
      if constexpr (has_state<type>) {
        std::string const key(type::name);
        if (!saved.is_object() || !saved.contains(key)) return;
        try {
          c.restore(saved.at(key));
          if constexpr (requires { c.resumed(run); }) c.resumed(run);
        } catch (nlohmann::json::exception const&) {
          parallel::fail("the checkpoint's state of callbacks.", key,
                         " is damaged; use another checkpoint");
        }
      }
    });
  }

 private:
  template <class F>
  void for_each(F&& f) {
    std::apply([&](auto&... c) { ((c ? f(*c) : void()), ...); }, callbacks_);
  }

  std::tuple<std::optional<Callbacks>...> callbacks_;
};

}  // namespace mpt
