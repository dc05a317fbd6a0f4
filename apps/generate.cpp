// generate: a model continues a prompt, token by token.
#include <chrono>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <string>

#include <mpt/generate/generate.hpp>
#include <mpt/hf/model_source.hpp>
#include <mpt/tokenizer/stream_decoder.hpp>
#include <mpt/tokenizer/tokenizer.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/train/weights.hpp>

#include "devices.hpp"
#include "support/app.hpp"
#include "support/engine.hpp"

namespace {

struct arguments {
  std::filesystem::path model;
  std::string tokenizer, prompt, precision = "fp32", device = "auto";
  mpt::generation_options options;
};

template <class T>
void generate(arguments args) {
  mpt::model_source const source(args.model);
  auto const where = args.tokenizer.empty() ? source.tokenizer() : args.tokenizer;
  parallel::require(!where.empty(), args.model.string(),
                    " brings no tokenizer; name one with --tokenizer");
  auto const tokenizer = mpt::tokenizer::load(where);
  parallel::require(tokenizer.size() <= source.config().vocab_size, "the tokenizer has ",
                    tokenizer.size(), " tokens, the model only ", source.config().vocab_size,
                    "; name the model's own with --tokenizer");
  args.options.end_of_text = tokenizer.eos_id().value_or(-1);

  mpt::stream_decoder decode(tokenizer, mpt::special_tokens::skip);
  auto const prompt = tokenizer.encode(args.prompt);
  fmt::print("{}", args.prompt);
  std::fflush(stdout);
  auto const engine = apps::make_engine();
  double seconds = 0;
  auto const ids = apps::with_device(
      apps::whole_machine(args.device, engine), [&]<class Device>(Device& device, auto const&) {
        typename Device::stream_type stream(device.compute_options());
        mpt::model<T> net(source.config());
        parallel::train::weights<T> const weights(net, device);
        source.load(weights, device);
        auto const begin = std::chrono::steady_clock::now();
        auto out = mpt::generate(net, device, stream, prompt, args.options, [&](std::int32_t id) {
          if (id < tokenizer.size()) fmt::print("{}", decode.push(id));
          std::fflush(stdout);
        });
        seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        return out;
      });
  fmt::print("{}\n", decode.finish());
  fmt::print(stderr, "({} tokens after a prompt of {}, {:.0f} tokens/s)\n", ids.size(),
             prompt.size(), static_cast<double>(ids.size()) / seconds);
}

}  // namespace

int main(int argc, char** argv) {
  arguments args;
  auto& sampling = args.options.sampling;
  CLI::App app{"Continue a prompt with a checkpoint or Hugging Face folder"};
  app.add_option("model", args.model, "checkpoint, save folder, or Hugging Face folder")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--prompt", args.prompt, "text to continue; - reads standard input")->required();
  app.add_option("--max_new_tokens", args.options.max_new_tokens, "at most so many new tokens")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--temperature", sampling.temperature, "0 is greedy")->capture_default_str();
  app.add_option("--top_k", sampling.top_k, "keep the k most likely tokens; 0: all");
  app.add_option("--top_p", sampling.top_p, "keep the most likely tokens of this probability");
  app.add_option("--seed", sampling.seed, "of the random choices")->capture_default_str();
  app.add_option("--tokenizer", args.tokenizer, "default: the model's own");
  app.add_option("--precision", args.precision, "fp32 or bf16")
      ->capture_default_str()
      ->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--device", args.device, "auto (a GPU when there is one), cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  return apps::run(app, argc, argv, [&] {
    if (args.prompt == "-") args.prompt.assign(std::istreambuf_iterator<char>(std::cin), {});
    args.precision == "bf16" ? generate<parallel::bf16>(args) : generate<float>(args);
  });
}
