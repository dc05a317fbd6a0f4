// prepare: writes raw text as a tokenised MDS set, like LLM Foundry's convert_dataset_* scripts.
//
//   prepare … FILE...                     one process, many threads
//   prepare --process I/N … FILE...       N processes, on one or several machines with one disk
//   prepare --dataset NAME --splits … …   splits of a data set of the hub, file by file
//   prepare --finetuning … FILE...        rows of prompts and responses, or chats, for finetuning
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <mpt/console/format.hpp>
#include <mpt/console/progress.hpp>
#include <mpt/console/say.hpp>
#include <mpt/data/hash.hpp>
#include <mpt/data/named_split.hpp>
#include <mpt/data/prepare_share.hpp>
#include <mpt/data/records.hpp>
#include <mpt/finetune/split_files.hpp>
#include <mpt/finetune/write_set.hpp>
#include <mpt/tokenizer/text_affixes.hpp>
#include <mpt/tokenizer/tokenizer.hpp>
#include <parallel/core/hexadecimal.hpp>

#include <cli/app.hpp>
#include <cli/results_file.hpp>
#include <inputs/hub_dataset.hpp>
#include <inputs/hub_names.hpp>
#include <inputs/parquet.hpp>
#include <launch/launch.hpp>
#include <launch/launcher.hpp>
#include <mpt/tokenizer/chat/jinja_renderer.hpp>

namespace {

struct arguments {
  std::string tokenizer, bos_text, eos_text, compression, split;
  std::string dataset, data_subset;
  std::vector<std::string> splits;
  std::filesystem::path out_root;
  std::vector<std::filesystem::path> files;
  std::uint32_t concat_tokens = 2048;
  std::size_t workers = std::max(1U, std::thread::hardware_concurrency());
  std::uint64_t hold_out = 20;
  std::string part = "all";
  std::string process = "0/1";
  bool no_wrap = false;
  bool finetuning = false;
  std::string preprocessor, prompt_column, response_column;
  std::size_t max_seq_len = 2048;
  std::string target_prompts = "none";
  std::string target_responses = "last";
  apps::results_file json;
};

/// Reads a share such as "2/8": process 2 of 8, counted from 0.
mpt::data::process_share share_of(std::string const& text) {
  unsigned long long index = 0;
  unsigned long long count = 0;
  char rest = 0;
  parallel::require(std::sscanf(text.c_str(), "%llu/%llu%c", &index, &count, &rest) == 2,
                    "--process: expected I/N such as 0/4, found '", text, "'");
  return {index, count};
}

/// Prints a note if --bos_text or --eos_text is not a single token, as LLM Foundry does, and
/// refuses a text that is spelt like a special token and is not a token of the tokenizer.
void check_separators(arguments const& args, mpt::tokenizer const& tokenizer,
                      mpt::text_affixes const& affixes) {
  for (auto const& [option, text] :
       {std::pair("--bos_text", args.bos_text), std::pair("--eos_text", args.eos_text)}) {
    auto const count = tokenizer.encode(text).size();
    if (count < 2) continue;
    bool const special = text.starts_with('<') && text.ends_with('>');
    parallel::require(!special, option, " '", mpt::printable(text), "' is no token of ",
                      tokenizer.files().name(), ", but ", count,
                      " ordinary ones, by which no program finds where a document ends; give the "
                      "spelling of one of its tokens",
                      tokenizer.eos_id()
                          ? parallel::concat(", such as its own end-of-text token '",
                                             *tokenizer.token_of(*tokenizer.eos_id()), "'")
                          : std::string(", or a tokenizer that has this one"));
    mpt::console::say(
        "note: {} '{}' is {} tokens, not one: no program finds by it where a document ends\n",
        option, mpt::printable(text), count);
  }
  bool const twice = (!affixes.prefix.empty() && !args.bos_text.empty()) ||
                     (!affixes.suffix.empty() && !args.eos_text.empty());
  if (twice)
    mpt::console::say(
        "note: the tokenizer itself puts a token around every text, and --bos_text or --eos_text "
        "another\n");
}

/// The counts of a set, as JSON.
[[nodiscard]] nlohmann::ordered_json json_of_set(arguments const& args,
                                                 mpt::data::process_share const& share,
                                                 mpt::data::prepare_share_result const& shared) {
  auto const& total = shared.part.total;
  nlohmann::ordered_json counts{
      {"folder", shared.part.folder.native()},
      {"already_complete", shared.part.status == mpt::data::prepare_status::already_complete},
      {"samples", total.samples},
      {"tokens_of_sample", args.concat_tokens},
      {"documents", total.documents},
      {"tokens", total.tokens},
      {"bytes", total.bytes},
      {"shards", total.shards},
      {"seconds", total.seconds}};
  if (share.count > 1)
    counts["processes"] = {{"count", share.count},
                           {"unfinished", shared.missing},
                           {"folder", shared.folder.native()},
                           {"samples", shared.samples}};
  return counts;
}

[[nodiscard]] mpt::data::prepare_options options_of(arguments const& args,
                                                    mpt::tokenizer const& tokenizer) {
  mpt::data::prepare_options options;
  options.inputs = args.files;
  options.out_root = args.out_root;
  options.split = args.split;
  options.tokenizer = parallel::hexadecimal(tokenizer.fingerprint());
  options.concat.sample_ids = args.concat_tokens;
  auto const affixes = mpt::read_text_affixes(tokenizer);
  check_separators(args, tokenizer, affixes);
  options.concat.bos = tokenizer.encode(args.bos_text);
  options.concat.bos.insert(options.concat.bos.end(), affixes.prefix.begin(), affixes.prefix.end());
  options.concat.eos = affixes.suffix;
  auto const end = tokenizer.encode(args.eos_text);
  options.concat.eos.insert(options.concat.eos.end(), end.begin(), end.end());
  options.concat.wrapping = args.no_wrap ? mpt::data::wrap::no : mpt::data::wrap::yes;
  options.compression = args.compression;
  options.hashes = {std::string(mpt::data::prepared_hash)};
  options.workers = args.workers;
  options.hold_out_every = args.hold_out;
  if (args.part == "held_out") options.part = mpt::data::document_part::held_out;
  if (args.part == "rest") options.part = mpt::data::document_part::rest;
  options.documents.open_parquet = apps::parquet_texts();
  return options;
}

/// The part of a set that is written, from 0 to 1.
[[nodiscard]] double fraction_of(mpt::data::prepare_progress const& status,
                                 std::optional<std::uint64_t> max_samples) {
  auto const ratio = [](std::uint64_t part, std::uint64_t whole) {
    return static_cast<double>(part) / std::max(1.0, static_cast<double>(whole));
  };
  double const read = ratio(status.input_read, status.input_total);
  return max_samples ? std::max(read, ratio(status.samples, *max_samples)) : read;
}

/// Prints what a set holds.
void print_set(arguments const& args, mpt::data::process_share const& share,
               mpt::data::prepare_share_result const& shared) {
  namespace console = mpt::console;
  auto const& result = shared.part;
  bool const was_complete = result.status == mpt::data::prepare_status::already_complete;
  if (result.folder.empty())
    fmt::print("process {} has nothing to do: whole files go to processes, none to this one\n",
               args.process);
  else
    fmt::print("{}{}: {} samples of {} tokens from {} documents ({} tokens, {}), {} shards\n",
               was_complete ? "already complete: " : "", result.folder.string(),
               result.total.samples, args.concat_tokens,
               console::grouped(static_cast<std::int64_t>(result.total.documents)),
               console::count(static_cast<double>(result.total.tokens)),
               console::bytes(static_cast<double>(result.total.bytes)), result.total.shards);
  if (share.count > 1 && shared.missing > 0)
    fmt::print("{} of {} processes have yet to finish\n", shared.missing, share.count);
  else if (share.count > 1)
    fmt::print("complete: {}: {} samples\n", shared.folder.string(), shared.samples);
}

/// Writes one set, says what it holds, and returns its counts as JSON.
nlohmann::ordered_json write_set(arguments const& args, mpt::data::prepare_options options,
                                 mpt::tokenizer const& tokenizer) {
  namespace console = mpt::console;
  auto const share = share_of(args.process);
  console::progress bar(share.count > 1         ? "prepare " + args.process + " "
                        : options.split.empty() ? std::string("prepare ")
                                                : "prepare " + options.split + " ");
  double first_fraction = -1;  // the fraction that was done when this run began
  options.progress = [&, max_samples =
                             options.max_samples](mpt::data::prepare_progress const& status) {
    double const fraction = fraction_of(status, max_samples);
    if (first_fraction < 0) first_fraction = fraction;
    double const seconds_left = fraction > first_fraction
                                    ? status.seconds * (1 - fraction) / (fraction - first_fraction)
                                    : -1.0;
    bar.update(
        std::min(fraction, 0.999),
        fmt::format(
            "left {}  {} documents  {} tokens  {}/s", console::duration(seconds_left),
            console::grouped(static_cast<std::int64_t>(status.documents)),
            console::count(static_cast<double>(status.tokens)),
            console::bytes(static_cast<double>(status.bytes) / std::max(1e-3, status.seconds))));
  };
  auto const make_encoder = [&tokenizer] {
    return [&tokenizer, cache = mpt::word_cache(std::size_t{1} << 16)](
               std::string_view text, std::vector<std::int32_t>& ids) mutable {
      tokenizer.encode(text, ids, cache);
    };
  };
  mpt::data::prepare_share_result shared;
  if (share.count == 1)
    shared.part = mpt::data::prepare(options, make_encoder);
  else
    shared = mpt::data::prepare_share(options, share, make_encoder);
  bar.finish();
  if (!args.json.is_printed_alone()) print_set(args, share, shared);
  return json_of_set(args, share, shared);
}

/// Writes splits of a data set of the hub. All are found before the first is written; each file is
/// got when its turn comes, and none that a small split does not need.
void write_splits(arguments const& args, mpt::data::prepare_options options,
                  mpt::tokenizer const& tokenizer) {
  apps::hub_dataset set(args.dataset);
  parallel::require(set.is_listed(), args.dataset,
                    ": has no files, or the cache does not say which, since another program filled "
                    "it; run this once with access to the hub");
  auto const available = set.splits(args.data_subset);
  auto const subset =
      args.data_subset.empty() ? args.dataset : args.dataset + ", subset " + args.data_subset;
  std::vector<std::pair<mpt::data::named_split, mpt::hub::listing>> splits;
  for (auto const& name : args.splits) {
    auto const split = mpt::data::find_named_split(name, available, subset);
    auto files = set.files({.name = {}, .subset = args.data_subset, .split = split.split});
    for (auto const& file : files) {
      auto const ending = mpt::finetune::format_ending(file.path);
      parallel::require(ending != ".csv", args.dataset, "/", file.path,
                        ": CSV is not read as text to pretrain on; convert it to JSON lines, and "
                        "give these files");
      parallel::require(ending != ".parquet" || options.documents.open_parquet, args.dataset, "/",
                        file.path, ": ", mpt::data::parquet_advice);
    }
    splits.emplace_back(split, std::move(files));
  }
  auto sets = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < splits.size(); ++i) {
    auto const& [split, files] = splits[i];
    options.split = args.splits[i];
    options.max_samples = split.max_samples;
    options.inputs.clear();
    options.deferred_inputs.emplace();
    for (auto const& file : files) {
      options.inputs.push_back(set.folder() / file.path);
      options.deferred_inputs->identities.push_back(
          fmt::format("{}, {} bytes, {}", file.path, file.size, file.blob()));
      options.deferred_inputs->bytes.push_back(file.size);
    }
    options.deferred_inputs->fetch = [&set, listed = &splits[i].second](std::size_t input) {
      set.get({(*listed)[input]});
    };
    sets.push_back(write_set(args, options, tokenizer));
  }
  args.json.write(sets);
}

void prepare(arguments const& args) {
  auto const tokenizer = mpt::tokenizer::load(args.tokenizer);
  auto options = options_of(args, tokenizer);
  if (args.dataset.empty()) return args.json.write(write_set(args, std::move(options), tokenizer));
  write_splits(args, std::move(options), tokenizer);
}

/// Refuses options that have no meaning for rows, since one process writes each row unchanged.
void require_options_of_rows(CLI::App const& app) {
  for (auto const& [option, instead] :
       {std::pair{"--part", "put the rows to be held out into separate files"},
        std::pair{"--hold_out", "put the rows to be held out into separate files"},
        std::pair{"--process", "one process writes all rows; it is quick"},
        std::pair{"--num_workers", "one process writes all rows; it is quick"},
        std::pair{"--concat_tokens", "the length of rows is --max_seq_len"},
        std::pair{"--no_wrap", "rows are not joined; packing_ratio of finetune does that"},
        std::pair{"--bos_text", "give rows, or the tokenizer's chat_template, the text they need"},
        std::pair{"--eos_text", "the tokenizer's end-of-text token ends a response"}})
    parallel::require(app.count(option) == 0, option,
                      " is for text to pretrain on and does nothing for the rows of --finetuning; "
                      "leave it out: ",
                      instead);
}

void prepare_finetuning(arguments const& args) {
  namespace console = mpt::console;
  mpt::finetune::finetuning_source source{.files = args.files,
                                          .parquet = apps::parquet_reader(),
                                          .date = mpt::local_now(),
                                          .max_seq_len = args.max_seq_len,
                                          .target_prompts = args.target_prompts,
                                          .target_responses = args.target_responses};
  if (!args.preprocessor.empty())
    source.preprocess = mpt::finetune::named_preprocessor(args.preprocessor);
  if (!args.prompt_column.empty())
    source.preprocess = mpt::finetune::column_mapping(args.prompt_column, args.response_column);
  std::optional<mpt::tokenizer> tokenizer;
  if (!args.tokenizer.empty()) tokenizer = mpt::tokenizer::load(args.tokenizer);
  auto const folder = args.split.empty() ? args.out_root : args.out_root / args.split;
  auto const report = mpt::finetune::write_set(source,
                                               {.folder = folder,
                                                .compression = args.compression,
                                                .hashes = {std::string(mpt::data::prepared_hash)}},
                                               tokenizer ? &*tokenizer : nullptr);
  auto const number = [](std::uint64_t count) {
    return console::grouped(static_cast<std::int64_t>(count));
  };
  args.json.write({{"folder", folder.native()},
                   {"rows", report.rows - report.dropped},
                   {"tokenised", tokenizer.has_value()},
                   {"dropped_rows", report.dropped},
                   {"truncated_rows", report.truncated}});
  if (args.json.is_printed_alone()) return;
  fmt::print("{}: {} rows, {}\n", folder.string(), number(report.rows - report.dropped),
             tokenizer ? "tokenised" : "as text");
  if (report.dropped > 0)
    fmt::print("dropped {} rows: prompt or response is empty, or the prompt alone has {} tokens\n",
               number(report.dropped), args.max_seq_len);
  if (report.truncated > 0)
    fmt::print("{} rows have more than {} tokens: training cuts their ends off\n",
               number(report.truncated), args.max_seq_len);
}

/// Adds what names the texts: files, or a data set of the hub.
void add_dataset_options(CLI::App& app, arguments& args) {
  auto* const files =
      app.add_option("files", args.files, "input files, in order")->check(CLI::ExistingFile);
  auto* const dataset =
      app.add_option("--dataset", args.dataset,
                     "ORG/NAME of a data set of the hub in place of files, e.g. allenai/c4")
          ->excludes(files)
          ->excludes("--split")
          ->excludes("--process")
          ->excludes("--finetuning");
  app.add_option("--data_subset", args.data_subset, "the set's configuration, e.g. en")
      ->needs(dataset);
  app.add_option("--splits", args.splits,
                 "splits of the set, each a sub-folder of out_root; train_small, val, val_small, "
                 "val_xsmall and val_xxsmall as in LLM Foundry")
      ->delimiter(',')
      ->needs(dataset);
}

/// Throws unless the command line says which texts are meant, by files or by a name of the hub.
void require_source(arguments& args) {
  if (args.dataset.empty()) {
    parallel::require(!args.files.empty(),
                      "input files are required, or --dataset ORG/NAME with --splits");
    return;
  }
  if (args.dataset == "c4") args.dataset = "allenai/c4";  // its name in LLM Foundry
  auto const shown = mpt::printable(args.dataset);
  parallel::require(!parallel::files::exists(args.dataset), "--dataset: '", shown,
                    "' is here, and a name of the hub is expected; give its files in its place");
  parallel::require(mpt::hub::means_repository(args.dataset),
                    "--dataset: expected ORG/NAME, found '", shown, "'");
  parallel::require(!args.splits.empty(),
                    "--splits is required with --dataset, e.g. --splits train_small val_small");
}

}  // namespace

int main(int argc, char** argv) {
  arguments args;
  CLI::App app{
      "Tokenise text into an MDS set: .json.gz, .jsonl, .jsonl.zst, .json, .parquet or plain text"};
  apps::add_examples(
      app,
      {"prepare --tokenizer gpt-neox-20b --concat_tokens 2048 --eos_text '<|endoftext|>' "
       "--compression zstd --out_root my-copy-c4 --split train c4-train.*.json.gz",
       "prepare --dataset allenai/c4 --data_subset en --splits train_small val_small "
       "--tokenizer EleutherAI/gpt-neox-20b --eos_text '<|endoftext|>' --out_root my-copy-c4",
       "prepare --finetuning --tokenizer my-model --out_root my-rows --split train rows.jsonl"});
  app.add_option(
      "--tokenizer", args.tokenizer,
      "tokenizer.json, a folder that holds it, or a name of the hub; --finetuning without it "
      "writes text");
  app.add_option("--concat_tokens", args.concat_tokens, "tokens of a sample")
      ->capture_default_str()
      ->check(apps::whole_number(1, std::numeric_limits<std::uint32_t>::max()));
  app.add_option("--bos_text", args.bos_text, "text before every document");
  app.add_option("--eos_text", args.eos_text, "text after every document, e.g. '<|endoftext|>'");
  app.add_flag("--no_wrap", args.no_wrap, "do not continue a document in the next sample");
  app.add_option("--compression", args.compression, "zstd, zstd:LEVEL, or nothing");
  app.add_option("--out_root", args.out_root, "folder of the set")->required();
  app.add_option("--split", args.split, "sub-folder of out_root for files, e.g. train");
  app.add_option("--part", args.part, "all documents, those held out, or the rest")
      ->capture_default_str()
      ->check(CLI::IsMember({"all", "held_out", "rest"}));
  app.add_option("--hold_out", args.hold_out, "one of this many documents is held out")
      ->capture_default_str()
      ->check(apps::whole_number(2, 1000000));
  app.add_option("--num_workers", args.workers, "threads that tokenise; the output is the same")
      ->capture_default_str()
      ->check(apps::whole_number(1, 4096));
  app.add_option("--process", args.process,
                 "I/N: the share of process I (from 0) of N, which give the same files and options")
      ->capture_default_str();
  auto* const finetuning = app.add_flag("--finetuning", args.finetuning,
                                        "write rows of prompts and responses, or chats, from "
                                        ".jsonl, .json, .csv (.gz and .zst too) or .parquet files");
  auto* const preprocessor =
      app.add_option("--preprocessor", args.preprocessor,
                     "the public set that the rows come from, e.g. tatsu-lab/alpaca")
          ->needs(finetuning);
  auto* const prompt =
      app.add_option("--prompt_column", args.prompt_column, "the column that is the prompt")
          ->needs(finetuning)
          ->excludes(preprocessor);
  auto* const response =
      app.add_option("--response_column", args.response_column, "the column that is the response")
          ->needs(prompt);
  prompt->needs(response);
  app.add_option("--max_seq_len", args.max_seq_len,
                 "rows whose prompt alone has this many tokens are left out")
      ->capture_default_str()
      ->check(apps::whole_number(1, std::numeric_limits<std::uint32_t>::max()))
      ->needs(finetuning);
  app.add_option("--target_prompts", args.target_prompts,
                 "prompts that are trained on: none, all or length>=N")
      ->capture_default_str()
      ->needs(finetuning);
  app.add_option("--target_responses", args.target_responses,
                 "responses that are trained on: last or all")
      ->capture_default_str()
      ->needs(finetuning);
  args.json.add_to(app, "the counts");
  add_dataset_options(app, args);
  return apps::run(app, argc, argv, apps::is_primary_here(), [&] {
    require_source(args);
    if (args.finetuning) require_options_of_rows(app);
    if (app.count("--process") == 0) apps::require_one_process();
    args.json.check(args.files);
    args.tokenizer = apps::local_tokenizer(args.tokenizer);
    if (args.finetuning) return prepare_finetuning(args);
    parallel::require(!args.tokenizer.empty(),
                      "--tokenizer is required: a tokenizer.json, or a folder that holds it");
    prepare(args);
  });
}
