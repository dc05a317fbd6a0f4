// training_run: a run for a session: batches from a function, a learning rate schedule, evaluations
// and checkpoints at intervals, and functions that are told of the results.
//
//   train::session session(model, device, groups, decoupled_adamw{.learning_rate = 1e-3}, {});
//   checkpoint::series saves(world, "runs/one", {.keep = 2});
//   train::run_training(session, {.batches = 1000, .seed = 1, .data = read_batch}, saves);
#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include <parallel/core/error.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/layer/context.hpp>
#include <parallel/train/checks/sample_check.hpp>
#include <parallel/train/learning_rate.hpp>
#include <parallel/train/session.hpp>
#include <parallel/train/train_batches.hpp>

namespace parallel::train {

/// All ranks give the same numbers. Functions are called on every rank.
template <class Session>
struct run_options {
  using microbatch = typename Session::microbatch;
  using loss = typename Session::loss;

  index batches = 0;       ///< that are trained in all, those before a resume included
  std::uint64_t seed = 0;  ///< of initial values, dropout and stochastic rounding
  /// Its time is the number of batches that are finished when a batch begins, as in the programs: a
  /// linear warm-up gives the first batch the factor 0.
  learning_rate_schedule learning_rate = {.shape = decay::constant};
  /// This rank's part of the batch that follows `batch` finished ones.
  std::function<rank_batch<microbatch>(index batch)> data = {};
  bool compares_samples = false;  ///< rank_batch::samples is given: none may be drawn twice
  std::function<rank_batch<microbatch>()> evaluation_data = {};
  index evaluation_interval = 0;  ///< in batches; 0: after the last one
  index save_interval = 0;        ///< in batches; 0: after the last one
  /// Called when a run resumes after `batches` finished batches. `note` says what was unexpected,
  /// or is empty.
  std::function<void(index batches, std::string const& note)> on_resume = {};
  /// Called after each batch. `batches` is the number of finished batches.
  std::function<void(index batches, step_result<loss> const&)> on_update = {};
  std::function<void(index batches, statistics<loss> const&)> on_evaluation = {};
};

/// The state in which a run resumes.
struct resume_point {
  index batches = 0;  ///< the number of finished batches
  std::string note;   ///< what was unexpected, for the user; or empty
};

/// For runs that save nothing: the interface of checkpoint::series.
struct no_saves {
  /// Restores the session and returns where the run resumes; nullopt if the run begins.
  template <class Session>
  [[nodiscard]] std::optional<resume_point> resume(Session&) const {
    return std::nullopt;
  }
  template <class Session>
  void save(Session&, index /*batches*/) const {}
};

/// Drives `session` for train_batches.
template <class Session, class Saves>
class training_run {
 public:
  using options_type = run_options<Session>;

  training_run(Session& session, options_type options, Saves& saves)
      : session_(session), options_(std::move(options)), saves_(saves) {
    require(options_.data != nullptr,
            "run_options::data is empty; give a function that returns "
            "this rank's part of a batch");
    require(
        options_.batches >= 0 && options_.evaluation_interval >= 0 && options_.save_interval >= 0,
        "run_options: batches and intervals must be 0 or more");
  }

  /// Resumes or begins, and trains up to the last batch. Returns the number of finished batches.
  index run() {
    auto const resumed = saves_.resume(session_);
    if (!resumed) session_.initialise(options_.seed);
    if (resumed && options_.on_resume) options_.on_resume(resumed->batches, resumed->note);
    return train_batches(*this, resumed ? resumed->batches : 0, options_.batches);
  }

  auto train_batch(index batch) {
    auto const data = options_.data(batch);
    require(!data.microbatches.empty() || data.max_microbatches > 0,
            "run_options::data returns no microbatches for batch ", batch, " of ", options_.batches,
            "; where the data has ended, begin it again, or train fewer batches; a rank without "
            "sequences says by rank_batch::max_microbatches how many the others have");
    if (options_.compares_samples)
      samples_.add(session_.stepper().groups(), session_.device(), session_.exchanges(),
                   data.samples, batch);
    position const current{.seed = options_.seed, .step = static_cast<std::uint32_t>(batch)};
    return session_.step(data, current, options_.learning_rate.at(static_cast<double>(batch)));
  }
  void after_update(index batches, step_result<typename Session::loss> const& result) {
    if (!std::isfinite(static_cast<double>(result.sums.loss)))
      throw diverged(concat("batch ", batches - 1, ": its loss is ", result.sums.mean_loss(),
                            ", and the parameters are lost from now on; lower the learning rate, "
                            "clip gradients, or find the operation whose result is not finite. "
                            "With stepper_options::keep_finite such a batch changes nothing"));
    if (options_.on_update) options_.on_update(batches, result);
  }
  void after_refusal(index batches, step_result<typename Session::loss> const& result) {
    fail("batch ", batches - 1, " updated nothing: its loss is ", result.sums.loss,
         ", its gradient's norm ", result.gradient_norm,
         "; to go on without such batches, write after_refusal for train_batches");
  }
  void stop(index) { is_stopped_ = true; }
  [[nodiscard]] bool is_stopped() const { return is_stopped_; }
  void evaluate_if_due(index batches) {
    if (!options_.evaluation_data || !is_due(batches, options_.evaluation_interval)) return;
    auto const sums = session_.evaluate(options_.evaluation_data());
    if (options_.on_evaluation) options_.on_evaluation(batches, sums);
  }
  void save_if_due(index batches) {
    if (is_stopped_ || is_due(batches, options_.save_interval)) saves_.save(session_, batches);
  }

 private:
  [[nodiscard]] bool is_due(index batches, index interval) const {
    return batches == options_.batches || (interval > 0 && batches % interval == 0);
  }

  Session& session_;
  options_type options_;
  Saves& saves_;
  sample_check samples_;
  bool is_stopped_ = false;
};

/// Trains `session` from its beginning, or from where `saves` left off, to the last batch: see
/// run_options. Collective over the ranks of the session. Returns the number of finished batches.
template <class Session, class Saves>
index run_training(Session& session, run_options<Session> options, Saves& saves) {
  return training_run<Session, Saves>(session, std::move(options), saves).run();
}
/// The same without checkpoints.
template <class Session>
index run_training(Session& session, run_options<Session> options) {
  no_saves none;
  return run_training(session, std::move(options), none);
}

}  // namespace parallel::train
