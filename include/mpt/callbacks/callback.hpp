// callback: a small component that watches a run and may log, speak, or stop it.
//
// Every rank has its own and all are told the same numbers, sums over the whole batch, so all come
// to the same conclusion without talking. What a callback remembers goes into the checkpoint, so a
// resumed run stops where the uninterrupted one would have.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <parallel/core/error.hpp>
#include <parallel/train/tensor_squares.hpp>

namespace mpt {

/// One finished batch.
struct batch_result {
  std::int64_t batch = 0;  // finished batches, this one included
  std::int64_t epoch = 0;  // finished epochs
  bool ends_epoch = false;
  double loss = 0;  // mean over the batch's loss tokens
  double accuracy = 0;
  double gradient_norm = 0;
  double gradient_scale = 1;  // from the summed gradient to the clipped mean
  std::vector<parallel::train::tensor_squares<double>> const* tensors = nullptr;  // may be empty
};

/// One finished evaluation set.
struct evaluation_report {
  std::string label;  // "" when there is only one
  std::int64_t batch = 0;
  std::int64_t epoch = 0;
  double loss = 0;
  double accuracy = 0;
};

/// What a callback can do to the run.
class run_control {
 public:
  /// `speak` shows a line; it does nothing where nobody reads.
  explicit run_control(std::function<void(std::string const&)> speak) : speak_(std::move(speak)) {}

  void say(std::string const& text) const { speak_(text); }

  /// Adds numbers or texts to this batch's record.
  void log(std::string const& name, double value) { numbers_.emplace_back(name, value); }
  void log(std::string const& name, std::string text) {
    texts_.emplace_back(name, std::move(text));
  }

  /// Wishes that the coming batch measures every tensor.
  void measure_tensors() { measuring_ = true; }

  /// Ends the run after this batch.
  void stop(std::string const& reason) {
    if (!stopped_) say(reason);
    stopped_ = true;
  }

  [[nodiscard]] bool stopped() const { return stopped_; }
  [[nodiscard]] bool measuring() const { return measuring_; }
  [[nodiscard]] auto const& numbers() const { return numbers_; }
  [[nodiscard]] auto const& texts() const { return texts_; }

  /// Before the next batch.
  void clear() {
    numbers_.clear();
    texts_.clear();
    measuring_ = false;
  }

 private:
  std::function<void(std::string const&)> speak_;
  std::vector<std::pair<std::string, double>> numbers_;
  std::vector<std::pair<std::string, std::string>> texts_;
  bool measuring_ = false;
  bool stopped_ = false;
};

template <class C>
concept hears_batch_begin = requires(C& c, run_control& run, std::int64_t batch) {
  c.batch_begin(run, batch);  // the batch's number, from 1
};
template <class C>
concept hears_batch_end = requires(C& c, run_control& run, batch_result const& result) {
  c.batch_end(run, result);
};
template <class C>
concept hears_evaluation_end = requires(C& c, run_control& run, evaluation_report const& result) {
  c.evaluation_end(run, result);
};
template <class C>
concept remembers = requires(C& c, C const& cc, nlohmann::json const& saved) {
  { cc.state() } -> std::same_as<nlohmann::json>;
  c.restore(saved);
};

/// Has LLM Foundry's name and hears of something.
template <class C>
concept callback = requires {
  { C::name } -> std::convertible_to<std::string_view>;
}
&&(hears_batch_begin<C> || hears_batch_end<C> || hears_evaluation_end<C>);

/// Callbacks that are there or not, told of events in their order.
template <callback... Callbacks>
class callback_list {
 public:
  explicit callback_list(std::optional<Callbacks>... all) : all_(std::move(all)...) {}

  void batch_begin(run_control& run, std::int64_t batch) {
    for_each([&](auto& c) {
      if constexpr (hears_batch_begin<std::decay_t<decltype(c)>>) c.batch_begin(run, batch);
    });
  }
  void batch_end(run_control& run, batch_result const& result) {
    for_each([&](auto& c) {
      if constexpr (hears_batch_end<std::decay_t<decltype(c)>>) c.batch_end(run, result);
    });
  }
  void evaluation_end(run_control& run, evaluation_report const& result) {
    for_each([&](auto& c) {
      if constexpr (hears_evaluation_end<std::decay_t<decltype(c)>>) c.evaluation_end(run, result);
    });
  }

  /// What all remember, by name.
  [[nodiscard]] nlohmann::json state() {
    auto out = nlohmann::json::object();
    for_each([&](auto& c) {
      using type = std::decay_t<decltype(c)>;
      if constexpr (remembers<type>) out[std::string(type::name)] = std::as_const(c).state();
    });
    return out;
  }

  /// Restores those that are in `saved`, which comes from a file; others begin afresh. Each may end
  /// the run at once.
  void restore(run_control& run, nlohmann::json const& saved) {
    for_each([&](auto& c) {
      using type = std::decay_t<decltype(c)>;
      if constexpr (remembers<type>) {
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
    std::apply([&](auto&... c) { ((c ? f(*c) : void()), ...); }, all_);
  }

  std::tuple<std::optional<Callbacks>...> all_;
};

}  // namespace mpt
