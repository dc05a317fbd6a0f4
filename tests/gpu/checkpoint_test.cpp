// MPT trained on a GPU, saved, and resumed in another process's place: the same bits as without a
// stop, on a device that promises the same bits in every run.
#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <vector>

#include <mpt/config/sizes.hpp>
#include <mpt/model/model.hpp>
#include <mpt/train/placed_sequences.hpp>
#include <parallel/comm/cuda/traffic_stream.hpp>
#include <parallel/comm/single.hpp>
#include <parallel/ops/cuda.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/train/plan.hpp>
#include <parallel/train/stepper.hpp>

#include "gpu_checkpoint.hpp"
#include "parallel/support/files.hpp"
#include "support/gpu.hpp"

namespace gpu_checkpoint_test {

using device = parallel::cuda::device;

template <class T>
class training {
 public:
  static constexpr std::ptrdiff_t sequences = 4, length = 64;

  training()
      : on_({.deterministic = true}),
        compute_(on_.compute_options()),
        traffic_(parallel::traffic_of<device>::options(on_)),
        net_(config()),
        step_(net_, on_, comm_, parallel::decoupled_adamw{},
              {.clip = {.kind = parallel::train::clipping_kind::norm, .threshold = 1.0}}),
        memory_(on_.allocate<std::byte>(
            parallel::train::plan_microbatch(net_, mpt::sequences::shape_of(sequences, length))
                .activations)),
        batch_(on_) {
    step_.initialise(5);
  }

  void train(std::ptrdiff_t until) {
    for (; done_ < until; ++done_) {
      parallel::philox const random(7, static_cast<std::uint32_t>(done_));
      std::vector<std::int32_t> ids(sequences * length);
      for (std::size_t i = 0; i < ids.size(); ++i)
        ids[i] = static_cast<std::int32_t>(random.bits(i) % 500U);
      batch_.place(mpt::sequences(std::move(ids), length));
      auto const part = batch_.view({0, sequences});
      std::ptrdiff_t const first = 0;
      (void)step_.step(compute_, traffic_, memory_, std::span(&part, 1), std::span(&first, 1),
                       {.seed = 5, .step = static_cast<std::uint32_t>(done_)}, 1.0);
    }
  }
  void save(std::filesystem::path const& root) { bench::save_training(step_, root, done_); }
  void load(std::filesystem::path const& root) { done_ = bench::load_training(step_, root); }
  [[nodiscard]] std::uint64_t checksum() { return bench::checksum_of_training(step_); }

 private:
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

  device on_;
  parallel::single comm_;
  device::stream_type compute_;
  parallel::traffic_type<device> traffic_;
  mpt::model<T> net_;
  parallel::train::stepper<mpt::model<T>, device, parallel::single, parallel::decoupled_adamw>
      step_;
  parallel::arena memory_;
  mpt::placed_sequences<device> batch_;
  std::ptrdiff_t done_ = 0;
};

TEST_CASE_TEMPLATE("saved and resumed equals not stopped, bit for bit", T, float, parallel::bf16) {
  if (!test::has_gpu()) return;
  test::temporary_folder const folder;
  training<T> calm;
  calm.train(3);
  calm.save(folder / "saved");
  auto const in_between = calm.checksum();
  calm.train(8);
  training<T> resumed;
  resumed.load(folder / "saved");
  CHECK(resumed.checksum() == in_between);
  resumed.train(8);
  CHECK(resumed.checksum() == calm.checksum());
  CHECK(calm.checksum() != in_between);
}

}  // namespace gpu_checkpoint_test
