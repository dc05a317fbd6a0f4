// A small MPT trained on one device: what comes of it, in the same steps, whatever its options.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <mpt/config/sizes.hpp>
#include <mpt/model/model.hpp>
#include <mpt/train/placed_sequences.hpp>
#include <parallel/comm/comm_stream.hpp>
#include <parallel/comm/single.hpp>
#include <parallel/device/transfer.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/train/plan.hpp>
#include <parallel/train/stepper.hpp>

namespace test {

struct training_options {
  bool overlap_weight_gradients = false;
  parallel::zero::optimizer_memory optimizer = parallel::zero::optimizer_memory::device;
};

template <class T, class Device>
class training {
 public:
  using stepper_type =
      parallel::train::stepper<mpt::model<T>, Device, parallel::single, parallel::decoupled_adamw>;
  static constexpr std::ptrdiff_t microbatches = 2, sequences = 2, length = 64;

  explicit training(Device on, training_options how = {})
      : on_(std::move(on)),
        how_(how),
        compute_(on_.compute_options()),
        exchanges_(parallel::comm_options<parallel::single>(on_)),
        net_(config()),
        step_(net_, on_, comm_, parallel::decoupled_adamw{},
              {.clip = {.kind = parallel::train::clipping_kind::norm, .threshold = 1.0},
               .optimizer_memory = how.optimizer,
               .pipeline = {.overlap_weight_gradients = how.overlap_weight_gradients}}),
        memory_(on_.template allocate<std::byte>(planned_activations())),
        batch_(on_) {
    step_.initialise(5);
  }

  /// Goes on until so many steps are done.
  void train(std::ptrdiff_t until, double learning_rate_factor = 1.0) {
    for (; done_ < until; ++done_) {
      parallel::philox const random(7, static_cast<std::uint32_t>(done_));
      std::vector<std::int32_t> ids(batch_elements);
      for (std::size_t i = 0; i < ids.size(); ++i)
        ids[i] = static_cast<std::int32_t>(random.bits(i) % 500U);
      batch_.place(mpt::sequences(std::move(ids), length));
      std::vector<mpt::microbatch> parts;
      std::vector<parallel::index> first;
      for (std::ptrdiff_t m = 0; m < microbatches; ++m) {
        parts.push_back(batch_.view({m * sequences, (m + 1) * sequences}));
        first.push_back(m * sequences);
      }
      (void)step_.step(compute_, exchanges_, memory_, std::span(std::as_const(parts)),
                       std::span(std::as_const(first)),
                       {.seed = 5, .step = static_cast<std::uint32_t>(done_)},
                       learning_rate_factor);
    }
  }

  /// Makes a step that is tried and leaves nothing behind.
  void try_step() {
    auto const done = done_;
    train(done + 1, 0.0);
    step_.clear_states(compute_);
    done_ = done;
  }

  /// All weights and optimizer states.
  [[nodiscard]] std::vector<float> numbers() const {
    std::vector<float> out;
    for (auto const& unit : step_.units())
      for (auto const& m : unit.memory.segments()) {
        auto const add = [&](auto elements) {
          parallel::read_on_host(on_, elements, [&](auto here) {
            for (auto const& element : here) out.push_back(static_cast<float>(element));
          });
        };
        add(m.values.span());
        add(m.master.span());
        for (auto const& state : m.states) add(state.span());
      }
    return out;
  }

  /// Bytes of the device that it was planned to take: units, activations, and, where the device
  /// has memory of its own, a batch of ids and labels.
  [[nodiscard]] std::size_t planned_bytes() {
    parallel::train::stages_of_rank const all({}, 0, 1, net_.num_blocks());
    mpt::model<T> meant(config());
    auto plan = parallel::train::plan_units<parallel::decoupled_adamw>(
        meant, parallel::decoupled_adamw{}, all, {}, {.optimizer_memory = how_.optimizer});
    plan.activations = planned_activations();
    return plan.total() +
           (parallel::host_reaches<Device> ? 0 : 2 * sizeof(std::int32_t) * batch_elements);
  }

  [[nodiscard]] Device const& device() const { return on_; }
  [[nodiscard]] stepper_type& step() { return step_; }
  [[nodiscard]] auto& exchanges() { return exchanges_; }
  [[nodiscard]] parallel::arena const& memory() const { return memory_; }
  [[nodiscard]] std::size_t planned_activations() {
    std::vector<mpt::microbatch> const all(microbatches,
                                           mpt::sequences::shape_of(sequences, length));
    return step_.plan_activations(all);
  }
  /// Says how many steps those of before had done.
  void go_on_from(std::ptrdiff_t done) { done_ = done; }
  [[nodiscard]] std::ptrdiff_t done() const { return done_; }

 private:
  static constexpr std::size_t batch_elements = microbatches * sequences * length;

  static mpt::model_config config() {
    mpt::model_config m;
    m.d_model = 128;
    m.n_heads = 2;
    m.n_layers = 2;
    m.vocab_size = 512;
    m.max_seq_len = length;
    m = mpt::hub_form(m);
    m.vocab_size = 512;
    m.resid_pdrop = 0.1;
    check_model(m, "");
    return m;
  }

  Device on_;
  training_options how_;
  parallel::single comm_;
  typename Device::stream_type compute_;
  parallel::comm_stream<Device, parallel::single> exchanges_;
  mpt::model<T> net_;
  stepper_type step_;
  parallel::arena memory_;
  mpt::placed_sequences<Device> batch_;
  std::ptrdiff_t done_ = 0;
};

/// Two steps with every way of doing them, on devices that `make` makes, give the same bits as the
/// plain ones.
template <class T, class Make>
void check_ways_to_train(Make const& make) {
  using enum parallel::zero::optimizer_memory;
  using run = training<T, decltype(make())>;
  auto const after = [&](training_options how) {
    run one(make(), how);
    one.train(2);
    return one.numbers();
  };
  auto const plain = after({});
  CHECK(plain == after({}));
  CHECK(plain == after({.overlap_weight_gradients = true}));
  CHECK(plain == after({.optimizer = host}));
  CHECK(plain == after({.overlap_weight_gradients = true, .optimizer = host}));
}

/// What the device gave out at most is what was planned, to the byte.
template <class T, class Make>
void check_memory_of_training(Make const& make) {
  using enum parallel::zero::optimizer_memory;
  for (auto const& how :
       {training_options{}, {.overlap_weight_gradients = true}, {.optimizer = host}}) {
    training<T, decltype(make())> one(make(), how);
    one.train(2);
    CHECK(one.memory().peak() == one.planned_activations());
    CHECK(one.device().peak_bytes() == one.planned_bytes());
  }
}

}  // namespace test
