// A small MPT trained on one device: the results must be the same for all options.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <mpt/config/model/sizes.hpp>
#include <mpt/model/device_sequences.hpp>
#include <mpt/model/model.hpp>
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

  explicit training(Device device, training_options options = {})
      : device_(std::move(device)),
        options_(options),
        compute_(device_.compute_options()),
        exchanges_(parallel::comm_options<parallel::single>(device_)),
        net_(config()),
        step_(net_, device_, comm_, parallel::decoupled_adamw{},
              {.clip = {.kind = parallel::train::clipping_kind::norm, .threshold = 1.0},
               .optimizer_memory = options.optimizer,
               .pipeline = {.overlap_weight_gradients = options.overlap_weight_gradients}}),
        memory_(device_.template allocate<std::byte>(planned_activations())),
        batch_(device_) {
    step_.initialise(5);
  }

  /// Trains until `step_count` steps are done in total.
  void train(std::ptrdiff_t step_count, double learning_rate_factor = 1.0) {
    for (; done_steps_ < step_count; ++done_steps_) {
      parallel::philox const random(7, static_cast<std::uint32_t>(done_steps_));
      std::vector<std::int32_t> ids(batch_elements);
      for (std::size_t i = 0; i < ids.size(); ++i)
        ids[i] = static_cast<std::int32_t>(random.bits(i) % 500U);
      batch_.assign(mpt::sequences(std::move(ids), length));
      std::vector<mpt::microbatch> views;
      std::vector<parallel::index> first;
      for (std::ptrdiff_t m = 0; m < microbatches; ++m) {
        views.push_back(batch_.view({m * sequences, (m + 1) * sequences}));
        first.push_back(m * sequences);
      }
      (void)step_.step(compute_, exchanges_, memory_,
                       {views,
                        first,
                        {.seed = 5, .step = static_cast<std::uint32_t>(done_steps_)},
                        learning_rate_factor});
    }
  }

  /// Makes a trial step that leaves weights and states unchanged.
  void try_step() {
    auto const done_steps = done_steps_;
    train(done_steps + 1, 0.0);
    step_.clear_states(compute_);
    done_steps_ = done_steps;
  }

  /// All weights and optimizer states.
  [[nodiscard]] std::vector<float> numbers() const {
    std::vector<float> out;
    for (auto const& unit : step_.units())
      for (auto const& m : unit.memory.segments()) {
        auto const add = [&](auto elements) {
          parallel::read_on_host(device_, elements, [&](auto host_elements) {
            for (auto const& element : host_elements) out.push_back(static_cast<float>(element));
          });
        };
        add(m.values.span());
        add(m.master.span());
        for (auto const& state : m.states) add(state.span());
      }
    return out;
  }

  /// The planned bytes of device memory: units, activations and, on a device with separate
  /// memory, a batch of ids and labels.
  [[nodiscard]] std::size_t planned_bytes() {
    parallel::train::stages_of_rank const stages({}, 0, 1, net_.num_blocks());
    mpt::model<T> meta_net(config());
    auto plan = parallel::train::plan_units<parallel::decoupled_adamw>(
        meta_net, parallel::decoupled_adamw{}, stages, {},
        {.optimizer_memory = options_.optimizer});
    plan.activations = planned_activations();
    return plan.total() +
           (parallel::host_reaches<Device> ? 0 : 2 * sizeof(std::int32_t) * batch_elements);
  }

  [[nodiscard]] Device const& device() const { return device_; }
  [[nodiscard]] stepper_type& step() { return step_; }
  [[nodiscard]] auto& exchanges() { return exchanges_; }
  [[nodiscard]] parallel::arena const& memory() const { return memory_; }
  [[nodiscard]] std::size_t planned_activations() {
    std::vector<mpt::microbatch> const shapes(microbatches,
                                              mpt::sequences::shape_of(sequences, length));
    return step_.plan_activations(shapes);
  }
  /// Sets the number of steps that were done before a checkpoint.
  void set_done_steps(std::ptrdiff_t done_steps) { done_steps_ = done_steps; }
  [[nodiscard]] std::ptrdiff_t done_steps() const { return done_steps_; }

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

  Device device_;
  training_options options_;
  parallel::single comm_;
  typename Device::stream_type compute_;
  parallel::comm_stream<Device, parallel::single> exchanges_;
  mpt::model<T> net_;
  stepper_type step_;
  parallel::arena memory_;
  mpt::device_sequences<Device> batch_;
  std::ptrdiff_t done_steps_ = 0;
};

/// Two steps with each option, on devices that `make` creates, must give the bits of the defaults.
template <class T, class Make>
void check_ways_to_train(Make const& make) {
  using enum parallel::zero::optimizer_memory;
  using run = training<T, decltype(make())>;
  auto const values_after = [&](training_options options) {
    run trainer(make(), options);
    trainer.train(2);
    return trainer.numbers();
  };
  auto const plain_values = values_after({});
  CHECK(plain_values == values_after({}));
  CHECK(plain_values == values_after({.overlap_weight_gradients = true}));
  CHECK(plain_values == values_after({.optimizer = host}));
  CHECK(plain_values == values_after({.overlap_weight_gradients = true, .optimizer = host}));
}

/// The peak memory of the device must equal the planned memory to the byte.
template <class T, class Make>
void check_memory_of_training(Make const& make) {
  using enum parallel::zero::optimizer_memory;
  for (auto const& options :
       {training_options{}, {.overlap_weight_gradients = true}, {.optimizer = host}}) {
    training<T, decltype(make())> trainer(make(), options);
    trainer.train(2);
    CHECK(trainer.memory().peak() == trainer.planned_activations());
    CHECK(trainer.device().peak_bytes() == trainer.planned_bytes());
  }
}

}  // namespace test
