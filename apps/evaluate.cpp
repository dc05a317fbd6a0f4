// evaluate: cross entropy, perplexity and token accuracy of a model on unseen data.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <mpt/console/format.hpp>
#include <mpt/console/progress.hpp>
#include <mpt/data/document_reader.hpp>
#include <mpt/eval/evaluate.hpp>
#include <mpt/hf/model_source.hpp>
#include <mpt/tokenizer/tokenizer.hpp>
#include <mpt/train/training_data.hpp>
#include <nlohmann/json.hpp>
#include <parallel/core/file.hpp>
#include <parallel/train/weights.hpp>

#include "devices.hpp"
#include "support/app.hpp"
#include "support/engine.hpp"

namespace {

namespace fs = std::filesystem;

struct arguments {
  fs::path model, data, json;
  std::string tokenizer, precision = "fp32", device = "auto";
  std::int64_t sequence_length = 0;  // 0: the model's longest
  std::int64_t batch_size = 8;
  std::optional<std::int32_t> eos_token_id, bos_token_id;
};

/// Batches, and about how many labels they hold in all.
struct batches {
  std::function<std::optional<mpt::sequences>()> next;
  double tokens = 1;
};

/// Batches of an MDS set.
batches of_set(arguments const& args, mpt::model_config const& config, std::int64_t length) {
  mpt::loader_config loader;
  loader.streams.push_back({.local = args.data});
  loader.max_seq_len = length;
  loader.eos_token_id = args.eos_token_id;
  loader.bos_token_id = args.bos_token_id;
  parallel::require(!config.attn.attn_uses_sequence_id || args.eos_token_id || args.bos_token_id,
                    args.model.string(),
                    ": its attention does not look across texts, and needs to know where they end; "
                    "give --eos_token_id or --bos_token_id");
  auto set = mpt::open_streams(loader, config.vocab_size);
  double const tokens = static_cast<double>(set.size()) * static_cast<double>(length - 1);
  auto const source = std::make_shared<mpt::evaluation_batches>(std::move(set), args.batch_size, 0,
                                                                1, -1, mpt::separator_of(loader));
  return {[source] { return source->next(); }, tokens};
}

/// Documents of a text file, tokenised, ended by end-of-text, joined and cut; the last piece is
/// shorter.
batches of_text(arguments const& args, mpt::model_source const& model, std::int64_t length) {
  auto const where = args.tokenizer.empty() ? model.tokenizer() : args.tokenizer;
  parallel::require(!where.empty(), "text needs a tokenizer, and ", args.model.string(),
                    " brings none; name one with --tokenizer");
  auto const tokenizer = mpt::tokenizer::load(where);
  auto const end = tokenizer.eos_id();
  mpt::document_separator separator;
  if (end) separator = {mpt::document_separator::side::ends_document, *end};
  parallel::require(!model.config().attn.attn_uses_sequence_id || end, where,
                    ": has no end-of-text token, and the model's attention needs to know where "
                    "texts end; evaluate on an MDS set");
  std::vector<std::int32_t> ids;
  mpt::data::document_reader reader(args.data);
  mpt::word_cache cache(std::size_t{1} << 16);
  for (std::string row; reader.next(row);) {
    tokenizer.encode(reader.format() == mpt::data::text_format::json_lines
                         ? mpt::data::text_of_row(row, reader.name(), reader.line())
                         : row,
                     ids, cache);
    if (end) ids.push_back(*end);
  }
  auto const tokens = static_cast<double>(ids.size());
  auto next = [ids = std::move(ids), length, separator, at = std::size_t{0},
               rows = static_cast<std::size_t>(
                   args.batch_size)]() mutable -> std::optional<mpt::sequences> {
    auto const whole = static_cast<std::size_t>(length);
    std::size_t const left = (ids.size() - at) / whole;
    std::size_t const take = left > 0 ? std::min(left, rows) * whole : ids.size() - at;
    if (take < 2) return std::nullopt;
    std::vector<std::int32_t> part(ids.begin() + static_cast<std::ptrdiff_t>(at),
                                   ids.begin() + static_cast<std::ptrdiff_t>(at + take));
    at += take;
    return mpt::sequences(std::move(part), left > 0 ? length : static_cast<std::int64_t>(take),
                          separator);
  };
  return {std::move(next), tokens};
}

template <class T>
void evaluate(arguments const& args) {
  namespace console = mpt::console;
  mpt::model_source const source(args.model);
  auto const& config = source.config();
  auto const length = args.sequence_length > 0 ? args.sequence_length : config.max_seq_len;
  parallel::require(!config.learned_pos_emb || length <= config.max_seq_len, "--seq_len ", length,
                    " is longer than the ", config.max_seq_len, " positions the model has");
  auto const data =
      fs::is_directory(args.data) ? of_set(args, config, length) : of_text(args, source, length);
  auto const engine = apps::make_engine();
  console::progress bar("evaluate");
  auto const result = apps::with_device(
      apps::whole_machine(args.device, engine), [&]<class Device>(Device& device, auto const&) {
        typename Device::stream_type stream(device.compute_options());
        mpt::model<T> net(config);
        parallel::train::weights<T> const weights(net, device);
        source.load(weights, device);
        return mpt::evaluate(net, device, stream, data.next, [&](std::int64_t tokens) {
          bar.update(std::min(1.0, static_cast<double>(tokens) / data.tokens),
                     fmt::format("{} tokens", console::grouped(tokens)));
        });
      });
  bar.finish();
  fmt::print(
      "cross entropy   {:.4f} nats\nperplexity      {:.3f}\ntoken accuracy  {:.2f} %\n"
      "unigram         {:.4f} nats (the same tokens, without context)\n"
      "tokens          {}\n",
      result.cross_entropy, result.perplexity(), 100 * result.token_accuracy,
      result.unigram_cross_entropy, console::grouped(result.tokens));
  if (args.json.empty()) return;
  nlohmann::ordered_json const record{{"cross_entropy", result.cross_entropy},
                                      {"perplexity", result.perplexity()},
                                      {"token_accuracy", result.token_accuracy},
                                      {"unigram_cross_entropy", result.unigram_cross_entropy},
                                      {"tokens", result.tokens},
                                      {"model", args.model.string()},
                                      {"data", args.data.string()},
                                      {"sequence_length", length},
                                      {"precision", args.precision}};
  if (args.json == "-") {
    fmt::print("{}\n", record.dump(2));
    return;
  }
  parallel::replace_text_file(args.json, record.dump(2) + "\n");
}

}  // namespace

int main(int argc, char** argv) {
  arguments args;
  CLI::App app{"Evaluate a checkpoint or Hugging Face folder on an MDS set or a text file"};
  app.add_option("model", args.model, "checkpoint, save folder, or Hugging Face folder")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--data", args.data, "MDS folder, or .json.gz, .jsonl, .jsonl.zst, text")
      ->required()
      ->check(CLI::ExistingPath);
  app.add_option("--tokenizer", args.tokenizer, "for text; default: the model's own");
  app.add_option("--seq_len", args.sequence_length, "tokens of a sequence; default: the model's")
      ->check(CLI::PositiveNumber);
  app.add_option("--batch_size", args.batch_size, "sequences at once")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  auto* const eos = app.add_option("--eos_token_id", args.eos_token_id,
                                   "the token that ends each text packed in an MDS set");
  app.add_option("--bos_token_id", args.bos_token_id, "or the token that begins each")
      ->excludes(eos);
  app.add_option("--precision", args.precision, "fp32 or bf16")
      ->capture_default_str()
      ->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--device", args.device, "auto (a GPU when there is one), cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  app.add_option("--json", args.json, "also write the numbers as JSON to this file (-: print)");
  return apps::run(app, argc, argv, [&] {
    args.precision == "bf16" ? evaluate<parallel::bf16>(args) : evaluate<float>(args);
  });
}
