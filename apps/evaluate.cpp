// evaluate: cross entropy, perplexity and token accuracy of a model on unseen data, and its
// accuracy on tasks of in-context learning.
//
//   evaluate MODEL --data SET                        one model on text
//   evaluate MODEL --icl_tasks TASKS.yaml            one model on tasks
//   evaluate EVAL.yaml key.sub=value …               the evaluation in LLM Foundry's YAML
//   mpirun -n N evaluate …                           rows divided among N ranks (or --ranks N)
//   evaluate MODEL --tensor N …                      a model divided over N ranks
#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <mpt/config/data/read_icl_tasks.hpp>
#include <mpt/console/format.hpp>
#include <mpt/console/progress.hpp>
#include <mpt/console/say.hpp>
#include <mpt/eval/eval_config.hpp>
#include <mpt/eval/icl_report.hpp>
#include <mpt/hf/generation_defaults.hpp>
#include <mpt/hf/model_source.hpp>
#include <mpt/tokenizer/text_affixes.hpp>
#include <mpt/tokenizer/tokenizer.hpp>
#include <nlohmann/json.hpp>

#include <cli/app.hpp>
#include <cli/report_file.hpp>
#include <cli/results_file.hpp>
#include <devices/engine.hpp>
#include <inputs/hub_names.hpp>
#include <inputs/loaded_model.hpp>
#include <inputs/same_inputs.hpp>
#include <inputs/text_batches.hpp>
#include <launch/launch.hpp>
#include <launch/launcher.hpp>
#include <process/process.hpp>

namespace {

namespace fs = std::filesystem;

struct arguments {
  fs::path model, adapter, data, tasks, gauntlet, markdown, rows;
  apps::results_file json;
  std::vector<std::string> overrides;
  std::string name, tokenizer, precision = "fp32", device = "auto", token_encoding_type = "int64";
  std::optional<int> ranks, tensor;
  std::int64_t sequence_length = 0;  // 0: the model's longest
  std::int64_t batch_size = 8;
  std::optional<std::int32_t> eos_token_id, bos_token_id;
  std::string first_model_option;  // the first given option that does not go with a YAML
};

apps::text_request requested_text(arguments const& args) {
  return {.data = args.data,
          .model = args.model,
          .tokenizer = args.tokenizer,
          .rows = args.batch_size,
          .eos_token_id = args.eos_token_id,
          .bos_token_id = args.bos_token_id,
          .token_encoding_type = args.token_encoding_type};
}

/// This rank's batches of a source that every rank reads: one of every `ranks` batches.
std::function<std::optional<mpt::sequences>()> every_nth(
    std::function<std::optional<mpt::sequences>()> next, int rank, int ranks) {
  return [next = std::move(next), rank, ranks, first = true]() mutable {
    for (int skip = std::exchange(first, false) ? rank : ranks - 1; skip > 0; --skip)
      if (!next()) return std::optional<mpt::sequences>();
    return next();
  };
}

/// The plan of an evaluation of one or several models, read and checked before any rank starts.
struct evaluation {
  std::vector<mpt::eval::evaluated_model> models;
  std::vector<mpt::eval::loaded_task> tasks = {};
  std::optional<mpt::eval::gauntlet_config> gauntlet = {};
  std::optional<std::int64_t> subset_batches = {};
  std::optional<int> ranks;
  int tensor = 1;
  double deadline = 600;
  int threads = 0;
  bool bf16 = false;
};

/// Loads the tokenizer that is named, or else the model's.
mpt::tokenizer tokenizer_of(std::string const& named, mpt::model_source const& source) {
  std::error_code unreadable;
  auto location = named;
  if (!source.tokenizer().empty() &&
      (location.empty() || !fs::exists(location, unreadable)))  // a name on the Hub
    location = source.tokenizer();
  parallel::require(!location.empty(), source.path().string(),
                    ": tasks need a tokenizer, and the model brings none; name one with "
                    "--tokenizer or tokenizer.name");
  auto out = mpt::tokenizer::load(location);
  parallel::require(out.size() <= source.config().vocab_size, location, ": has ", out.size(),
                    " tokens, the model only ", source.config().vocab_size,
                    "; name the model's own");
  return out;
}

/// Runs all tasks on a loaded model. `ends`: the tokens that end a text, by the model's files.
/// Collective.
std::vector<mpt::eval::task_result> run_tasks(evaluation const& plan, apps::loaded_model& model,
                                              mpt::tokenizer const& tokenizer,
                                              std::vector<std::int32_t> const& ends, bool shows) {
  namespace eval = mpt::eval;
  std::int64_t longest = 2;
  std::size_t total_rows = 0;
  for (auto const& task : plan.tasks) {
    longest = std::max(longest, task.config.max_seq_len);
    for (auto const& [category, part] : task.parts)
      total_rows +=
          task.config.shots.size() * eval::rows_to_run(task.config, part, plan.subset_batches);
  }
  auto const texts = model.texts({.tokens = longest});
  eval::task_model scorer(*texts);
  eval::row_sharing const sharing{
      .rank = model.replica(), .ranks = model.replicas(), .gather = [&](std::string const& text) {
        return model.gather(text);
      }};
  std::optional<mpt::console::progress> bar;
  if (shows) bar.emplace("tasks");
  std::size_t finished_rows = 0;
  std::vector<eval::task_result> out;
  for (auto const& task : plan.tasks)
    for (auto const shots : task.config.shots) {
      std::size_t rows = 0;
      auto const seen = [&](std::size_t) {
        rows += static_cast<std::size_t>(model.replicas());
        if (!bar) return;
        bar->update(std::min(1.0, static_cast<double>(finished_rows + rows) /
                                      static_cast<double>(total_rows)),
                    fmt::format("{}, {}-shot", task.config.label, shots));
      };
      out.push_back(
          eval::run_task(task, shots, tokenizer, scorer, sharing, plan.subset_batches, seen, ends));
      finished_rows += out.back().rows();
    }
  return out;
}

/// The results of one model on text and on tasks.
struct outcome {
  std::optional<mpt::evaluation_result> text;
  mpt::eval::model_report report;
};

outcome evaluate(arguments const& args, evaluation const& plan, std::size_t model_index,
                 apps::engine const& engine, parallel::shared_deadline const& deadline,
                 parallel::any_communicator& comm, apps::placement const& place) {
  namespace console = mpt::console;
  auto const& request = plan.models.at(model_index);
  mpt::model_source const source(request.path, request.adapter);
  if (comm.rank() == 0)
    for (auto const& note : source.notes()) console::say("note: {}\n", note);
  auto const& config = source.config();
  if (request.stated) mpt::eval::check_stated(*request.stated, config, request.name);
  auto const length = args.sequence_length > 0 ? args.sequence_length : config.max_seq_len;
  parallel::require(!config.learned_pos_emb || length <= config.max_seq_len, "--seq_len ", length,
                    " is longer than the ", config.max_seq_len, " positions the model has");
  for (auto const& task : plan.tasks)
    parallel::require(!config.learned_pos_emb || task.config.max_seq_len <= config.max_seq_len,
                      task.config.label, ": max_seq_len ", task.config.max_seq_len,
                      " is longer than the ", config.max_seq_len, " positions of ", request.name);
  std::optional<apps::text_batches> data;
  if (!args.data.empty()) data = apps::open_text(requested_text(args), source, length);
  if (data && comm.rank() == 0 && !data->note.empty()) console::say("note: {}\n", data->note);
  std::optional<mpt::tokenizer> tokenizer;
  mpt::text_ends ends;
  if (!plan.tasks.empty()) {
    tokenizer = tokenizer_of(request.tokenizer, source);
    ends = text_ends_of(source, *tokenizer);
    bool const writes = std::ranges::any_of(plan.tasks, [](auto const& task) {
      return task.config.kind == mpt::eval::task_kind::generation;
    });
    if (writes && comm.rank() == 0 && !ends.note.empty()) console::say("note: {}\n", ends.note);
  }
  outcome out{.text = std::nullopt, .report = {request.name, {}, std::nullopt}};
  bool const shows = comm.rank() == 0 && apps::is_primary();
  auto const work = [&](apps::loaded_model& model) {
    if (data) {
      std::optional<console::progress> bar;
      if (shows) bar.emplace("evaluate");
      out.text = model.evaluate(
          every_nth(data->next, model.replica(), model.replicas()), [&](std::int64_t tokens) {
            auto const seen = tokens * model.replicas();
            if (bar)
              bar->update(std::min(1.0, static_cast<double>(seen) / data->tokens),
                          fmt::format("{} tokens", console::grouped(seen)));
          });
    }
    // the note is about whole sequences; tasks continue texts with a KV cache, which fused kernels
    // do not support
    if (auto const note = model.attention_note(); comm.rank() == 0 && !note.empty())
      console::say("{}\n", note);
    if (tokenizer) out.report.tasks = run_tasks(plan, model, *tokenizer, ends.tokens, shows);
    if (plan.gauntlet)
      out.report.gauntlet = mpt::eval::score_gauntlet(*plan.gauntlet, out.report.tasks);
  };
  apps::with_loaded_model({.source = source,
                           .bf16 = plan.bf16,
                           .device = {.kind = args.device,
                                      .local_rank = place.local_rank,
                                      .cores = place.cores,
                                      .threads = plan.threads,
                                      .products = &engine},
                           .tensor = plan.tensor},
                          comm, deadline, place, work);
  return out;
}

/// The facts of all that an evaluation reads, which ranks compare.
mpt::input_facts evaluation_facts(arguments const& args, evaluation const& plan) {
  mpt::input_facts out{apps::program_fact()};
  auto const add = [&](mpt::input_facts const& facts) {
    out.insert(out.end(), facts.begin(), facts.end());
  };
  for (auto const& request : plan.models) {
    mpt::model_source const source(request.path, request.adapter);
    auto facts = apps::model_facts(source.config(), source.path());
    auto const add_to_model = [&](mpt::input_facts const& more) {
      facts.insert(facts.end(), more.begin(), more.end());
    };
    add_to_model(source.facts(mpt::checksum_extent::sampled));
    add_to_model(
        apps::tokenizer_facts(request.tokenizer.empty() ? source.tokenizer() : request.tokenizer));
    auto const length =
        args.sequence_length > 0 ? args.sequence_length : source.config().max_seq_len;
    if (!args.data.empty()) add_to_model(apps::text_facts(requested_text(args), source, length));
    if (plan.models.size() > 1)
      for (auto& fact : facts) fact.input += " of " + request.name;
    add(facts);
  }
  std::vector<mpt::eval::task_config> tasks;
  for (auto const& task : plan.tasks) tasks.push_back(task.config);
  add(apps::task_facts(tasks));
  for (auto const& [option, value] : {std::pair("batch size", args.batch_size),
                                      {"sequence length", args.sequence_length},
                                      {"tensor degree", std::int64_t{plan.tensor}},
                                      {"bf16", std::int64_t{plan.bf16}},
                                      {"batches of a task", plan.subset_batches.value_or(0)}})
    out.push_back({"the evaluation", "", option, std::to_string(value)});
  return out;
}

/// Prints the results and writes the requested files.
void report(arguments const& args, evaluation const& plan, std::vector<outcome> const& outcomes,
            bool from_yaml) {
  using nlohmann::ordered_json;
  std::vector<mpt::eval::model_report> reports;
  auto records = ordered_json::array();
  bool const quiet = args.json.is_printed_alone();
  for (auto const& result : outcomes) {
    reports.push_back(result.report);
    ordered_json record;
    if (auto const& text = result.text) {
      if (!quiet)
        fmt::print(
            "cross entropy   {:.4f} nats\nperplexity      {:.3f}\ntoken accuracy  {:.2f} %\n"
            "unigram         {:.4f} nats (the same tokens, without context)\n"
            "tokens          {}\n",
            text->cross_entropy, text->perplexity(), 100 * text->token_accuracy,
            text->unigram_cross_entropy, mpt::console::grouped(text->tokens));
      auto const length = args.sequence_length > 0
                              ? args.sequence_length
                              : mpt::model_source(args.model).config().max_seq_len;
      record = {{"cross_entropy", text->cross_entropy},
                {"perplexity", text->perplexity()},
                {"token_accuracy", text->token_accuracy},
                {"unigram_cross_entropy", text->unigram_cross_entropy},
                {"tokens", text->tokens},
                {"model", result.report.model},
                {"data", args.data.string()},
                {"sequence_length", length},
                {"precision", args.precision}};
    }
    if (!plan.tasks.empty()) record.update(json_report(result.report));
    for (auto const& note : notes_on_tasks(result.report))
      mpt::console::say("note: {}: {}\n", result.report.model, note);
    if (result.report.gauntlet)
      for (auto const& [category, benchmark] : result.report.gauntlet->missing)
        mpt::console::say("note: {}: no score for {}, as {} was not run\n", result.report.model,
                          category, benchmark);
    records.push_back(std::move(record));
  }
  if (!plan.tasks.empty()) {
    auto const tables = markdown_report(reports, plan.gauntlet ? &*plan.gauntlet : nullptr);
    if (!quiet) fmt::print("{}", tables);
    if (!args.markdown.empty()) apps::write_report_file(args.markdown, tables);
    std::string lines;
    for (auto const& result : reports) lines += row_lines(result);
    if (!args.rows.empty()) apps::write_report_file(args.rows, lines);
  }
  args.json.write(from_yaml ? ordered_json{{"models", records}} : records.at(0));
}

void say_once(mpt::config_report const& report) {
  if (!apps::is_primary()) return;
  if (auto const line = describe_ignored(report); !line.empty()) mpt::console::say("{}\n", line);
  for (auto const& note : report.notes) mpt::console::say("note: {}\n", note);
}

/// The evaluation that a YAML file describes.
evaluation read_yaml(arguments& args) {
  parallel::require(
      args.first_model_option.empty(), args.model.string(), ": ", args.first_model_option,
      " goes with a model's folder; a YAML says what to run itself, as in device=cuda");
  auto config = apps::load_eval_config(args.model, args.overrides);
  say_once(config.report);
  args.device = config.device;
  return {.models = std::move(config.models),
          .tasks = mpt::eval::load_tasks(config.tasks),
          .gauntlet = std::move(config.gauntlet),
          .subset_batches = config.subset_batches,
          .ranks = config.ranks ? std::optional(static_cast<int>(*config.ranks)) : args.ranks,
          .tensor = args.tensor.value_or(config.tensor),
          .deadline = config.dist_timeout,
          .threads = static_cast<int>(config.threads.value_or(0)),
          .bf16 = config.precision == mpt::precision_kind::amp_bf16};
}

/// The evaluation of one model that the options describe.
evaluation read_options(arguments const& args) {
  std::string const word = args.overrides.empty() ? "" : args.overrides[0];
  auto const ending = fs::path(word).extension();
  parallel::require(ending != ".yaml" && ending != ".yml", "'", word,
                    "': a file of tasks for a model is given by --icl_tasks, and one that names "
                    "its models alone: evaluate ",
                    word);
  parallel::require(word.empty(), "'", word,
                    "': key=value goes with a YAML file, not with a model's folder");
  parallel::require(!args.data.empty() || !args.tasks.empty(),
                    "there is nothing to evaluate on; give --data or --icl_tasks");
  parallel::require(args.token_encoding_type == "int64" || fs::is_directory(args.data),
                    "--token_encoding_type is of ids in an MDS set, and there is none; leave it "
                    "out");
  bool const sees_ends = args.eos_token_id || args.bos_token_id;
  parallel::require(!sees_ends || fs::is_directory(args.data),
                    "--eos_token_id and --bos_token_id tell where texts end in an MDS set, and "
                    "there is none; leave them out");
  evaluation out{.models = {{.name = mpt::eval::model_name(args.name, args.adapter),
                             .path = args.model,
                             .adapter = args.adapter,
                             .tokenizer = args.tokenizer,
                             .stated = std::nullopt}},
                 .ranks = args.ranks,
                 .tensor = args.tensor.value_or(1),
                 .bf16 = args.precision == "bf16"};
  mpt::config_report found;
  if (!args.tasks.empty()) {
    auto const length = args.sequence_length > 0
                            ? args.sequence_length
                            : mpt::model_source(args.model).config().max_seq_len;
    out.tasks = mpt::eval::load_tasks(mpt::eval::read_task_file(
        args.tasks, {.batch_size = args.batch_size, .max_seq_len = length}, found));
  }
  if (!args.gauntlet.empty()) {
    parallel::require(!args.tasks.empty(), "--eval_gauntlet needs --icl_tasks");
    out.gauntlet = mpt::eval::read_gauntlet_file(args.gauntlet, found);
  }
  say_once(found);
  return out;
}

/// Refuses invalid options before anything is read.
void check(arguments const& args) {
  parallel::require(args.sequence_length != 1,
                    "--seq_len 1: a sequence of one token has none to predict; give at least 2");
  std::vector<fs::path> const inputs{args.model, args.data, args.tasks, args.gauntlet};
  args.json.check(inputs);
  apps::check_report_file("--markdown", args.markdown, inputs);
  apps::check_report_file("--rows", args.rows, inputs);
}

void run(arguments args) {
  apps::require_own_launch();
  check(args);
  args.name = args.model.string();
  args.model = apps::local_model(args.model);
  apps::fetch_adapted_model(args.model);
  args.tokenizer = apps::local_tokenizer(args.tokenizer);
  bool const from_yaml = !fs::is_directory(args.model);
  auto const plan = from_yaml ? read_yaml(args) : read_options(args);
  for (auto const& [name, file] : {std::pair("--markdown", args.markdown), {"--rows", args.rows}})
    parallel::require(file.empty() || !plan.tasks.empty(), name, " ", file.string(),
                      ": is of tasks, and there are none; give --icl_tasks");
  auto const engine = apps::own_product();  // results do not depend on batches and ranks
  auto ranks = plan.ranks ? plan.ranks : apps::processes_started();
  if (!ranks) ranks = plan.tensor;
  parallel::require(*ranks % plan.tensor == 0, *ranks, " ranks cannot hold models of ", plan.tensor,
                    " ranks each; use a multiple of ", plan.tensor);
  parallel::shared_deadline const deadline = std::chrono::duration<double>(plan.deadline);
  mpt::input_facts facts;
  if (apps::processes_started()) facts = evaluation_facts(args, plan);
  apps::launch({.ranks = ranks, .deadline = deadline},
               [&](parallel::any_communicator& comm, apps::placement const& place) {
                 if (!facts.empty()) apps::check_same_inputs(facts, comm);
                 std::vector<outcome> outcomes;
                 for (std::size_t i = 0; i < plan.models.size(); ++i)
                   outcomes.push_back(evaluate(args, plan, i, engine, deadline, comm, place));
                 if (comm.rank() == 0) report(args, plan, outcomes, from_yaml);
               });
}

}  // namespace

int main(int argc, char** argv) {
  arguments args;
  CLI::App app{"Evaluate a model on an MDS set, a text file, or tasks of in-context learning"};
  apps::add_examples(app,
                     {"evaluate ckpt --data my-copy-c4/val",
                      "evaluate /models/Llama-3.2-1B --data text.jsonl --seq_len 2048 --json -",
                      "evaluate ckpt --icl_tasks tasks.yaml --ranks 8 --markdown tasks.md",
                      "evaluate eval.yaml device_eval_batch_size=4"});
  app.add_option("model", args.model,
                 "checkpoint, save folder, Hugging Face folder or name of a model on the hub; or "
                 "an evaluation YAML in LLM "
                 "Foundry's form")
      ->required()
      ->check(apps::existing_path_or_name());
  app.add_option("--adapter", args.adapter, "folder of an adapter that PEFT wrote for the model")
      ->check(CLI::ExistingDirectory);
  app.add_option("overrides", args.overrides, "key.sub=value, which replaces the YAML's value");
  app.add_option("--data", args.data, "MDS folder, or .json.gz, .jsonl, .jsonl.zst, text")
      ->check(CLI::ExistingPath);
  app.add_option("--icl_tasks", args.tasks, "YAML file with a list of tasks (icl_tasks)")
      ->check(CLI::ExistingFile);
  app.add_option("--eval_gauntlet", args.gauntlet, "YAML file with a gauntlet (eval_gauntlet)")
      ->check(CLI::ExistingFile);
  app.add_option("--tokenizer", args.tokenizer, "for text and tasks; default: the model's own");
  app.add_option("--seq_len", args.sequence_length, "tokens of a sequence; default: the model's")
      ->check(apps::whole_number(1));
  app.add_option("--batch_size", args.batch_size, "sequences in one pass")
      ->capture_default_str()
      ->check(apps::whole_number(1));
  auto* const eos = app.add_option("--eos_token_id", args.eos_token_id,
                                   "the token that ends each text packed in an MDS set");
  app.add_option("--bos_token_id", args.bos_token_id, "or the token that begins each")
      ->excludes(eos);
  app.add_option("--token_encoding_type", args.token_encoding_type,
                 "the type of ids in an MDS set that stores them as plain bytes")
      ->capture_default_str()
      ->check(CLI::IsMember(
          {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}));
  app.add_option("--precision", args.precision, "fp32 or bf16")
      ->capture_default_str()
      ->transform(apps::number_type({"fp32", "bf16"}));
  app.add_option("--device", args.device, "auto (a GPU when there is one), cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  app.add_option("--ranks", args.ranks, "threads that share the rows; under mpirun leave it out")
      ->check(apps::whole_number(1, 4096));
  app.add_option("--tensor", args.tensor,
                 "ranks that each hold a slice of the model, and read the same rows")
      ->check(apps::whole_number(1, 4096));
  args.json.add_to(app, "the numbers");
  app.add_option("--markdown", args.markdown, "also write the tables of tasks to this file");
  app.add_option("--rows", args.rows, "also write the result of each row of tasks, as JSON lines");
  apps::settle_threads(argv);
  auto const body = [&] {
    for (char const* const name :
         {"--adapter", "--data", "--icl_tasks", "--eval_gauntlet", "--tokenizer", "--seq_len",
          "--batch_size", "--eos_token_id", "--bos_token_id", "--token_encoding_type",
          "--precision", "--device"})
      if (args.first_model_option.empty() && app.count(name) > 0) args.first_model_option = name;
    run(args);
  };
  return apps::run(app, argc, argv, apps::is_primary_here(), body);
}
