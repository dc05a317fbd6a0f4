// Loads a trained model of a family that the library knows, such as a Hugging Face folder of a
// Llama, and prints the logits of the token that follows some ids, one a line: example_logits
// FOLDER ID...
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

#include <mpt/generate/model_decoder.hpp>
#include <mpt/hf/model_source.hpp>
#include <mpt/model/model.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/train/weights.hpp>

namespace {

// [guide: logits]
std::vector<float> next_logits(char const* folder, std::vector<std::int32_t> const& ids) {
  mpt::model_source const source(folder);  // a Hugging Face folder, or a checkpoint of a run
  mpt::model<float> net(source.config());
  parallel::host::device device;
  parallel::host::stream stream({.threads = 2});
  parallel::train::weights<float> const weights(net, device);
  source.load(weights, device);
  mpt::model_decoder<float, parallel::host::device> decoder(
      net, device, stream, {.tokens = source.config().max_seq_len});
  return decoder.read(0, ids);  // text 0 of those that the decoder has room for
}
// [guide: end]

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: example_logits FOLDER ID...\n", stderr);
    return 1;
  }
  try {
    std::vector<std::int32_t> ids;
    for (int i = 2; i < argc; ++i) ids.push_back(std::atoi(argv[i]));
    for (float const logit : next_logits(argv[1], ids)) std::printf("%.9g\n", double(logit));
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "error: %s\n", problem.what());
    return 1;
  }
}
