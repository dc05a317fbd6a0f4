#include <mpt/train/data/example_set.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <system_error>
#include <utility>

#include <mpt/config/data/mirrors.hpp>
#include <mpt/finetune/find_files.hpp>
#include <mpt/finetune/preprocess.hpp>
#include <mpt/train/data/stream_folder.hpp>
#include <mpt/vocabulary.hpp>

namespace mpt {
namespace {

/// Where a loader's examples are stored and how they are read. `key`: the loader's key, for
/// messages. `cache`: the cache of its remote sets, or null.
[[nodiscard]] finetune::finetuning_source finetuning_source_of(
    loader_config const& loader, std::string const& key,
    std::shared_ptr<data::shard_cache> const& cache) {
  namespace fs = std::filesystem;
  auto const& config = *loader.finetuning;
  finetune::finetuning_source out{.max_seq_len = static_cast<std::size_t>(loader.max_seq_len),
                                  .target_prompts = config.target_prompts,
                                  .target_responses = config.target_responses};
  out.preprocess =
      config.columns ? finetune::column_mapping(config.columns->prompt, config.columns->response)
      : config.preprocessing.empty() ? finetune::registered_preprocessor_of(config.set)
                                     : finetune::named_preprocessor(config.preprocessing);
  for (auto const& known : data::detail::mds_types)
    if (known.name == loader.token_encoding_type) out.ids.raw_type = known.type;
  for (auto const& stream : loader.streams) {
    out.folders.push_back(stream_folder(stream));
    out.remotes.push_back(remote_set_of(cache, out.folders.back()));
  }
  if (config.name.empty()) return out;
  std::error_code unreadable;  // then it is not there
  bool const is_format = config.name == "json" || config.name == "csv" || config.name == "parquet";
  require(is_format || fs::exists(config.name, unreadable), key, ".dataset.hf_name: '",
          printable(config.name), "' is no folder or file on this machine; ",
          mirror_advice(key + ".dataset.hf_name", config.set));
  require(!fs::exists(fs::path(config.name) / "index.json", unreadable), key, ".dataset.hf_name: '",
          printable(config.name), "' is an MDS set (it has an index.json); name it by ", key,
          ".dataset.local");
  finetune::file_names names{.name = config.name,
                             .subset = config.subset,
                             .split = config.split,
                             .data_dir = config.data_dir,
                             .data_files = config.data_files};
  if (auto const unnamed = names.data_files.extract(""))
    names.data_files[names.split] = unnamed.mapped();
  out.files = finetune::find_files(names);
  return out;
}

[[nodiscard]] tokenizer load_tokenizer(std::string const& name) {
  std::error_code unreadable;  // then it is not there
  require(std::filesystem::exists(name, unreadable), "tokenizer.name: '", printable(name),
          "' is no folder on this machine, and the examples are yet to be tokenised; ",
          mirror_advice("tokenizer.name", name));
  return tokenizer::load(name);
}

[[nodiscard]] std::shared_ptr<example_set const> read_example_set(
    loader_config const& loader, std::string const& key, tokenizer const& tokens,
    std::int64_t vocab_size, example_settings const& settings,
    std::shared_ptr<data::shard_cache> const& cache) {
  example_set out;
  auto source = finetuning_source_of(loader, key, cache);
  source.ids.vocab_size = vocab_size;
  source.parquet = settings.parquet;
  source.date = out.date = settings.date;
  out.examples = finetune::read_examples(source, tokens, &out.report);
  if (std::error_code ignored; std::filesystem::is_directory(loader.finetuning->name, ignored))
    out.files = std::move(source.files);
  out.pad_id = tokens.id_of_role("pad_token").value_or(tokens.eos_id().value_or(0));
  std::int32_t largest = out.pad_id;
  for (auto const& example : out.examples)
    largest = std::max(largest, *std::ranges::max_element(example.ids));
  require(largest < vocab_size, "the tokenizer gives id ", largest, ", but model.vocab_size is ",
          vocab_size,
          "; use the tokenizer that the model was trained with, or, of a model in a folder "
          "(hf_causal_lm), set model.allow_embedding_resizing=true");
  return std::make_shared<example_set const>(std::move(out));
}

}  // namespace

std::vector<std::uint32_t> example_set::lengths() const {
  std::vector<std::uint32_t> out;
  out.reserve(examples.size());
  for (auto const& example : examples)
    out.push_back(static_cast<std::uint32_t>(example.ids.size()));
  return out;
}

std::vector<std::string> describe(run_examples const& examples, data_config const& data) {
  std::vector<std::string> out;
  auto const add = [&](std::string const& name, std::shared_ptr<example_set const> const& set) {
    if (set == nullptr) return;
    auto const& report = set->report;
    auto text = concat(name, ": ", set->examples.size(), " examples");
    auto const& files = set->files;
    if (files.size() == 1) text += concat(" of ", files[0].native());
    if (files.size() > 1)
      text += concat(" of ", files.size(), " files, ", files[0].native(), " to ",
                     files.back().native());
    if (report.dropped > 0)
      text += concat(", ", report.dropped, " rows left out (nothing in them is trained on)");
    if (report.truncated > 0) text += concat(", ", report.truncated, " cut to max_seq_len");
    out.push_back(std::move(text));
  };
  add("train_loader", examples.train);
  for (std::size_t i = 0; i < examples.evaluation.size(); ++i) {
    add(eval_loader_name(data.eval_loaders[i]), examples.evaluation[i]);
  }
  return out;
}

run_examples read_run_examples(model_config const& model, data_config const& data,
                               example_settings const& settings, remote_sets const& sets) {
  run_examples out;
  std::optional<tokenizer> tokens;
  auto const read =
      [&](loader_config const& loader, std::string const& key,
          std::shared_ptr<data::shard_cache> const& cache) -> std::shared_ptr<example_set const> {
    if (!loader.finetuning) return nullptr;
    if (!tokens) tokens = load_tokenizer(data.tokenizer.name);
    return read_example_set(loader, key, *tokens, model.vocab_size, settings, cache);
  };
  out.train = read(data.train_loader, "train_loader", sets.train);
  for (std::size_t i = 0; i < data.eval_loaders.size(); ++i) {
    auto const& loader = data.eval_loaders[i];
    out.evaluation.push_back(read(loader, eval_loader_name(loader), sets.evaluation_cache(i)));
  }
  return out;
}

}  // namespace mpt
