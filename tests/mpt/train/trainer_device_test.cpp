// A whole run on memory that the host cannot reach: it trains, evaluates, saves, stops and resumes.
// Its files equal those of a run on the host, byte for byte. Its model is also evaluated, and
// continues a prompt, on such memory.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <mpt/eval/evaluate.hpp>
#include <mpt/generate/generate.hpp>
#include <mpt/generate/model_decoder.hpp>
#include <mpt/hf/model_source.hpp>
#include <mpt/train/data/training_data.hpp>
#include <parallel/train/weights.hpp>

#include "mpt/train/guarded_run.hpp"

namespace trainer_device_test {
namespace {

using namespace tiny_run;
using parallel::bf16;

TEST_CASE_TEMPLATE("device memory: a run leaves the files of a run on the host", T, float, bf16) {
  run_files const files;
  auto config = files.config(6);
  config.data.eval_loaders = {files.held_out()};
  config.evaluation.eval_interval = {2, mpt::time_unit::batch};
  config.model.attn.alibi = true;
  config.model.learned_pos_emb = false;
  for (int const stage : {0, 3}) {
    CAPTURE(stage);
    config.execution.zero_stage = stage;
    config.execution.offload_optimizer = stage == 3;
    config.run.max_duration.count = 6;
    auto const name = std::to_string(stage);
    config.checkpoint.save_folder = files.folder / ("host" + name);
    auto const expected = train<T>(config, 2);
    config.checkpoint.save_folder = files.folder / ("guarded" + name);
    config.checkpoint.autoresume = true;
    config.run.max_duration.count = 4;
    static_cast<void>(train_guarded<T>(config, 2));
    config.run.max_duration.count = 6;
    auto const got = train_guarded<T>(config, 2);
    CHECK(got.loss == expected.loss);
    CHECK(got.batches == 6);
    auto const expected_files = tensors_of(expected.checkpoint);
    CHECK(expected_files.size() >= 2);
    CHECK(tensors_of(got.checkpoint) == expected_files);
    config.checkpoint.autoresume = false;
  }
}

TEST_CASE("device memory: a trained model has the host's evaluation and generated text") {
  run_files const files;
  auto config = files.config(8);
  config.checkpoint.save_folder = files.folder / "run";
  static_cast<void>(train<float>(config));
  mpt::model_source const source(files.folder / "run");

  auto const measure = [&](auto& device) {
    using device_type = std::remove_reference_t<decltype(device)>;
    typename device_type::stream_type stream(device.compute_options());
    mpt::model<float> net(source.config());
    parallel::train::weights<float> const weights(net, device);
    source.load(weights, device);
    mpt::evaluation_batches batches(mpt::open_streams(files.held_out(), vocabulary), 2, 0, 1, -1);
    auto const scores = mpt::evaluate(net, device, stream, [&] { return batches.next(); });
    CHECK(scores.tokens == 7 * (length - 1));
    std::vector<std::int32_t> const prompt{3, 4};
    return std::pair(scores.cross_entropy,
                     mpt::generate(net, device, stream, prompt,
                                   {.max_new_tokens = 5, .sampling = {.temperature = 0}}));
  };
  parallel::host::device host;
  guarded::device guarded(std::size_t{64} << 20);
  auto const expected = measure(host);
  auto const got = measure(guarded);
  CHECK(got.first == expected.first);
  CHECK(got.second == expected.second);
  CHECK(got.second.size() == 5);
}

}  // namespace
}  // namespace trainer_device_test
