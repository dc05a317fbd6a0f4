// generate: continues a prompt, the prompts of a file, or a conversation with a model.
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include <mpt/console/plain_text.hpp>
#include <mpt/console/say.hpp>
#include <mpt/generate/generate.hpp>
#include <mpt/generate/prompts.hpp>
#include <mpt/generate/stop_strings.hpp>
#include <mpt/hf/generation_defaults.hpp>
#include <mpt/hf/model_source.hpp>
#include <mpt/tokenizer/text_affixes.hpp>
#include <mpt/tokenizer/tokenizer.hpp>
#include <mpt/tokenizer/utf8.hpp>
#include <nlohmann/json.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/device/host/stream.hpp>

#include <cli/app.hpp>
#include <cli/results_file.hpp>
#include <devices/engine.hpp>
#include <inputs/hub_names.hpp>
#include <inputs/loaded_model.hpp>
#include <inputs/same_inputs.hpp>
#include <launch/launch.hpp>
#include <launch/launcher.hpp>
#include <mpt/tokenizer/chat/jinja_renderer.hpp>
#include <process/process.hpp>

namespace {

struct arguments {
  std::filesystem::path model, adapter, prompts;
  apps::results_file json;
  std::string name, tokenizer, prompt, precision = "fp32", device = "auto";
  std::string system = "You are a friendly chatbot who aims to be helpful and honest.";
  std::vector<std::string> stops;
  bool chat = false;
  std::size_t batch = 1;
  std::optional<int> tensor;
  mpt::generation_options options;
  std::function<bool(std::string const& option)> is_given;  ///< on the command line
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The continuation of a prompt, and the time that each step took.
struct continuation {
  std::string text;
  std::size_t prompt_tokens = 0, tokens = 0;
  double encode = 0, generate = 0, decode = 0;  // seconds

  [[nodiscard]] double total() const { return encode + generate + decode; }
};

using text_printer = std::function<void(std::string const&)>;
using texts = std::vector<std::string>;
/// Continues all texts together. With a printer there is one text, and each new part of it is
/// printed as soon as later tokens cannot change it.
using continue_texts = std::function<std::vector<continuation>(texts const&, text_printer const&)>;

std::vector<continuation> continue_all(arguments const& args, apps::loaded_model& model,
                                       parallel::index max_tokens, mpt::tokenizer const& tokenizer,
                                       mpt::text_affixes const& affixes, std::uint64_t first_text,
                                       texts const& prompts, text_printer const& show_text) {
  std::vector<continuation> out(prompts.size());
  std::vector<std::vector<std::int32_t>> ids;
  std::vector<mpt::stopped_text> decoded_texts;
  std::size_t longest_prompt = 0;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    auto const begin = std::chrono::steady_clock::now();
    ids.push_back(encode_with_affixes(affixes, tokenizer, prompts[i]));
    out[i].encode = seconds_since(begin);
    out[i].prompt_tokens = ids.back().size();
    decoded_texts.emplace_back(
        tokenizer, args.stops,
        args.chat ? mpt::text_position::beginning : mpt::text_position::continuation);
    mpt::check_prompt(ids.back().size(), max_tokens);
    longest_prompt = std::max(longest_prompt, ids.back().size());
  }
  auto const end_of_turn = args.chat ? tokenizer.id_of(mpt::chat_end) : std::nullopt;
  double decoding_seconds = 0;
  auto options = args.options;
  options.first_text = first_text;
  options.ends_text = [&](std::size_t i, std::int32_t id) {
    if (id == end_of_turn) return true;
    auto const begin_of_decoding = std::chrono::steady_clock::now();
    bool const ended = decoded_texts[i].add(id);
    if (show_text) show_text(decoded_texts[i].take());
    auto const duration = seconds_since(begin_of_decoding);
    out[i].decode += duration;
    decoding_seconds += duration;
    return ended;
  };
  auto begin = std::chrono::steady_clock::now();
  auto const decoder =
      model.texts({.tokens = mpt::longest_text(static_cast<parallel::index>(longest_prompt),
                                               options.max_new_tokens, max_tokens),
                   .texts = prompts.size()});
  auto const new_ids = mpt::generate(*decoder, std::span(ids), options);
  auto const generation_seconds =
      (seconds_since(begin) - decoding_seconds) / static_cast<double>(prompts.size());
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    begin = std::chrono::steady_clock::now();
    out[i].tokens = new_ids[i].size();
    out[i].generate = generation_seconds;
    out[i].text = decoded_texts[i].finish();
    if (show_text) show_text(decoded_texts[i].take());
    out[i].decode += seconds_since(begin);
  }
  return out;
}

/// Prints the times that LLM Foundry prints, under its names.
void print_times(std::vector<continuation> const& continuations, std::size_t batch) {
  continuation sum;
  for (auto const& current : continuations) {
    sum.prompt_tokens += current.prompt_tokens;
    sum.tokens += current.tokens;
    sum.encode += current.encode;
    sum.generate += current.generate;
    sum.decode += current.decode;
  }
  double const per_token =
      1000 * sum.total() / static_cast<double>(std::max<std::size_t>(sum.tokens, 1));
  mpt::console::say(
      "bs={}, total_input_tokens={}, total_output_tokens={}\n"
      "encode_latency={:.2f}ms, gen_latency={:.2f}ms, decode_latency={:.2f}ms, "
      "total_latency={:.2f}ms\n"
      "latency_per_output_token={:.2f}ms/tok\noutput_tok_per_sec={:.2f}tok/sec\n",
      std::min(batch, continuations.size()), sum.prompt_tokens, sum.tokens, 1000 * sum.encode,
      1000 * sum.generate, 1000 * sum.decode, 1000 * sum.total(), per_token, 1000 / per_token);
}

/// Prints a text, on a terminal without control sequences; throws if it cannot be written to
/// standard output.
void print(std::string const& text) {
  fmt::print("{}", ::isatty(STDOUT_FILENO) == 1 ? mpt::console::plain_text(text) : text);
  apps::require_printed();
}

nlohmann::ordered_json generation_json(std::string const& prompt, continuation const& result) {
  return {{"prompt", prompt},
          {"output", result.text},
          {"prompt_tokens", result.prompt_tokens},
          {"output_tokens", result.tokens},
          {"seconds", result.total()}};
}

void write_json(arguments const& args, std::vector<mpt::file_prompt> const& prompts,
                std::vector<continuation> const& continuations) {
  if (!args.json.is_asked()) return;
  auto generations = nlohmann::ordered_json::array();
  double seconds = 0;
  std::size_t tokens = 0;
  for (std::size_t i = 0; i < continuations.size(); ++i) {
    generations.push_back(generation_json(prompts[i].text, continuations[i]));
    seconds += continuations[i].total();
    tokens += continuations[i].tokens;
  }
  auto const seconds_of = [&](double continuation::*part) {
    double sum = 0;
    for (auto const& current : continuations) sum += current.*part;
    return sum;
  };
  nlohmann::ordered_json const record{
      {"model", args.name},
      {"generations", std::move(generations)},
      {"seconds", seconds},
      {"encode_seconds", seconds_of(&continuation::encode)},
      {"generate_seconds", seconds_of(&continuation::generate)},
      {"decode_seconds", seconds_of(&continuation::decode)},
      {"output_tokens_per_second", seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0}};
  args.json.write(record);
}

/// Continues all prompts, whose lengths have been checked. A text has at most `max_tokens` tokens.
void continue_prompts(arguments const& args, std::vector<mpt::file_prompt> const& prompts,
                      std::int64_t max_tokens, continue_texts const& continue_group) {
  std::vector<continuation> continuations;
  bool const prints_json = args.json.is_printed_alone();
  bool const shows_progress = args.batch == 1 && !prints_json;
  for (std::size_t index = 0; index < prompts.size();) {
    std::size_t const end = std::min(index + args.batch, prompts.size());
    texts group;
    for (std::size_t i = index; i < end; ++i) group.push_back(prompts[i].text);
    if (shows_progress) print(group.front());
    try {
      for (auto& current :
           continue_group(group, shows_progress ? text_printer(print) : text_printer()))
        continuations.push_back(std::move(current));
    } catch (parallel::error const& problem) {
      parallel::fail(prompts[index].location, end > index + 1 ? " and those after it: " : ": ",
                     problem.what());
    }
    if (shows_progress) print("\n");
    for (; index < end; ++index) {
      auto const& current = continuations[index];
      if (!shows_progress && !prints_json) print(prompts[index].text + current.text + "\n");
      if (static_cast<std::int64_t>(current.prompt_tokens + current.tokens) == max_tokens &&
          static_cast<std::int64_t>(current.tokens) < args.options.max_new_tokens)
        mpt::console::say("note: {}: ends after {} tokens, because the model reads at most {}\n",
                          prompts[index].location, current.tokens, max_tokens);
    }
  }
  if (args.prompts.empty())
    mpt::console::say("({} tokens after a prompt of {}, {:.0f} tokens/s)\n",
                      continuations[0].tokens, continuations[0].prompt_tokens,
                      static_cast<double>(continuations[0].tokens) / continuations[0].generate);
  else
    print_times(continuations, args.batch);
  write_json(args, prompts, continuations);
}

void chat(arguments const& args, mpt::chat_renderer const& render,
          continue_texts const& continue_conversation) {
  mpt::console::say(
      "Each line is a message, except the commands clear (begin a new chat), history (print the "
      "chat), system (change the system prompt) and quit.\n");
  auto system = args.system;
  std::vector<mpt::chat_message> messages;
  auto const reset = [&] {
    messages.clear();
    if (!system.empty()) messages.push_back({"system", system});
  };
  reset();
  auto const ask = [](char const* prompt, std::string& line) {
    mpt::console::say("{}: ", prompt);
    return static_cast<bool>(std::getline(std::cin, line));
  };
  for (std::string line; ask("user", line);) {
    if (line == "quit" || line == "exit" || line == "q") return;
    if (line.empty()) continue;
    if (!mpt::utf8::is_valid(line)) {
      apps::print_error("the line is not UTF-8 text; write it again");
      continue;
    }
    if (line == "clear") {
      reset();
    } else if (line == "history") {
      for (auto const& message : messages) print(message.role + ": " + message.content + "\n");
    } else if (line == "system") {
      if (!ask("system", system)) return;
      reset();
    } else {
      messages.push_back({"user", line});
      try {
        auto answer = std::move(continue_conversation({render(messages, true)}, print).front());
        print("\n");
        messages.push_back({"assistant", std::move(answer.text)});
      } catch (parallel::error const& problem) {  // e.g. the chat has become too long
        messages.pop_back();
        apps::print_error(problem.what());
      }
    }
  }
}

/// Repeats rank 0's calls on the other ranks that hold slices of the same model.
class shared_work {
 public:
  shared_work(parallel::any_communicator& ranks, continue_texts continue_locally)
      : ranks_(ranks), continue_locally_(std::move(continue_locally)) {}

  /// Continues texts on all ranks; called on rank 0.
  std::vector<continuation> operator()(texts const& prompts, text_printer const& printer) {
    static_cast<void>(broadcast(nlohmann::json(prompts).dump()));
    return continue_locally_(prompts, printer);
  }
  /// Lets `follow` return on the other ranks; called on rank 0.
  void end() { static_cast<void>(broadcast("")); }

  /// Continues the texts that rank 0 continues, until rank 0 calls `end`; called on the other
  /// ranks.
  void follow() {
    for (auto text = broadcast(""); !text.empty(); text = broadcast("")) try {
        static_cast<void>(continue_locally_(nlohmann::json::parse(text).get<texts>(), {}));
      } catch (parallel::error const&) {  // rank 0 has the same error and reports it
      }
  }

 private:
  [[nodiscard]] std::string broadcast(std::string text) {
    if (ranks_.size() == 1) return text;
    return parallel::broadcast_text(ranks_, exchanges_, std::move(text));
  }

  parallel::any_communicator& ranks_;
  parallel::host::stream exchanges_;
  continue_texts continue_locally_;
};

/// Throws if options are invalid, before any file is read.
void check_options(arguments const& args) {
  static_cast<void>(mpt::sampler(args.options.sampling));
  static_cast<void>(mpt::token_history(args.options.history, {}));
  args.json.check({args.model, args.prompts});
}

/// The prompts to continue. Throws when one is too long for the model.
std::vector<mpt::file_prompt> read_prompts(arguments const& args, mpt::tokenizer const& tokenizer,
                                           mpt::text_affixes const& affixes,
                                           std::int64_t max_tokens) {
  if (args.chat) return {};
  auto out = args.prompts.empty() ? std::vector<mpt::file_prompt>{{"--prompt", args.prompt}}
                                  : mpt::read_prompts(args.prompts);
  for (auto const& [location, text] : out) {
    parallel::require(mpt::utf8::is_valid(text), location, ": is not UTF-8 text");
    mpt::check_prompt(encode_with_affixes(affixes, tokenizer, text).size(), max_tokens,
                      location + ": ");
  }
  return out;
}

/// Takes the settings of sampling that the model's files recommend in place of options that are not
/// given, and says so.
void apply_generation_defaults(arguments& args, mpt::model_source const& source) {
  auto const defaults = mpt::read_generation_defaults(source.path());
  std::string applied;
  auto const apply = [&](std::string const& option, auto const& value, auto& setting) {
    if (!value || args.is_given("--" + option) || *value == setting) return;
    setting = *value;
    applied += fmt::format("{}{} {}", applied.empty() ? "" : ", ", option, setting);
  };
  auto& sampling = args.options.sampling;
  apply("temperature", defaults.temperature, sampling.temperature);
  if (sampling.temperature > 0) {
    apply("top_k", defaults.top_k, sampling.top_k);
    apply("top_p", defaults.top_p, sampling.top_p);
  }
  apply("repetition_penalty", defaults.repetition_penalty, args.options.history.repetition_penalty);
  auto const file = mpt::generation_file(source.path()).string();
  if (!defaults.unfollowed.empty() && apps::is_primary_here())
    mpt::console::say("note: {}: not followed, since generate has no such settings: {}\n", file,
                      fmt::join(defaults.unfollowed, ", "));
  if (applied.empty()) return;
  check_options(args);
  if (apps::is_primary_here())
    mpt::console::say("note: {} means {}; options of these names change them\n", file, applied);
}

/// Names the options of sampling that have no effect because the likeliest token is taken.
void note_unused_options(arguments const& args) {
  if (args.options.sampling.temperature > 0 || !apps::is_primary_here()) return;
  std::vector<std::string> unused{"--top_k", "--top_p", "--seed"};
  std::erase_if(unused, [&](std::string const& option) { return !args.is_given(option); });
  if (!unused.empty())
    mpt::console::say(
        "note: {}: without effect at --temperature 0, which takes the likeliest token; "
        "--temperature 1 samples\n",
        fmt::join(unused, ", "));
}

/// The facts of all that shapes the texts, which ranks compare.
mpt::input_facts generation_facts(arguments const& args, mpt::model_source const& source,
                                  std::string const& tokenizer_name) {
  mpt::input_facts out{apps::program_fact()};
  for (auto const& facts :
       {apps::model_facts(source.config(), source.path()),
        source.facts(mpt::checksum_extent::sampled), apps::tokenizer_facts(tokenizer_name)})
    out.insert(out.end(), facts.begin(), facts.end());
  auto const& options = args.options;
  nlohmann::json const settings{{"max_new_tokens", options.max_new_tokens},
                                {"temperature", options.sampling.temperature},
                                {"top_k", options.sampling.top_k},
                                {"top_p", options.sampling.top_p},
                                {"seed", options.sampling.seed},
                                {"repetition_penalty", options.history.repetition_penalty},
                                {"no_repeat_ngram_size", options.history.no_repeat_ngram_size},
                                {"end_tokens", options.end_tokens},
                                {"stop", args.stops},
                                {"chat", args.chat},
                                {"precision", args.precision}};
  for (auto const& [option, value] : settings.items())
    out.push_back({"the options and generation_config.json", "", option, value.dump()});
  return out;
}

void generate(arguments args) {
  apps::require_own_launch();
  args.name = args.model.string();
  args.model = apps::local_model(args.model);
  apps::fetch_adapted_model(args.model);
  args.tokenizer = apps::local_tokenizer(args.tokenizer);
  mpt::model_source const source(args.model, args.adapter);
  apply_generation_defaults(args, source);
  note_unused_options(args);
  if (apps::is_primary_here())
    for (auto const& note : source.notes()) mpt::console::say("note: {}\n", note);
  auto const tokenizer_name = args.tokenizer.empty() ? source.tokenizer() : args.tokenizer;
  parallel::require(!tokenizer_name.empty(), args.model.string(),
                    " has no tokenizer; name one with --tokenizer");
  auto const tokenizer = mpt::tokenizer::load(tokenizer_name);
  parallel::require(tokenizer.size() <= source.config().vocab_size, "the tokenizer has ",
                    tokenizer.size(), " tokens, the model only ", source.config().vocab_size,
                    "; name the model's own with --tokenizer");
  auto ends = text_ends_of(source, tokenizer);
  if (!ends.note.empty() && apps::is_primary_here()) mpt::console::say("note: {}\n", ends.note);
  args.options.end_tokens = std::move(ends.tokens);
  auto const max_tokens = source.config().max_seq_len;
  auto const affixes = args.chat ? mpt::text_affixes() : mpt::read_text_affixes(tokenizer);
  auto const prompts = apps::is_primary_here() ? read_prompts(args, tokenizer, affixes, max_tokens)
                                               : std::vector<mpt::file_prompt>();
  mpt::chat_renderer render;
  if (args.chat) {
    render = mpt::read_chat_renderer(tokenizer.files(), mpt::local_now());
    args.stops.emplace_back(mpt::chat_end);  // for tokenizers that split it into several tokens
  }
  auto const engine = apps::make_engine();
  auto const work = [&](parallel::any_communicator& ranks, apps::loaded_model& model) {
    std::uint64_t text_count = 0;  // the number of texts in earlier calls, the same on every rank
    shared_work work_of_ranks(
        ranks, [&](texts const& prompts_of_call, text_printer const& printer) {
          auto const first_text = std::exchange(text_count, text_count + prompts_of_call.size());
          return continue_all(args, model, max_tokens, tokenizer, affixes, first_text,
                              prompts_of_call, printer);
        });
    if (ranks.rank() > 0) return work_of_ranks.follow();
    if (args.chat)
      chat(args, render, std::ref(work_of_ranks));
    else
      continue_prompts(args, prompts, max_tokens, std::ref(work_of_ranks));
    work_of_ranks.end();
  };
  parallel::shared_deadline const deadline =
      std::chrono::seconds(args.chat ? 7 * 86400 : 600);  // a user may think before the next line
  mpt::input_facts facts;
  if (apps::processes_started()) facts = generation_facts(args, source, tokenizer_name);
  apps::launch(
      {.ranks = args.tensor ? args.tensor : apps::processes_started(), .deadline = deadline},
      [&](parallel::any_communicator& ranks, apps::placement const& place) {
        if (!facts.empty()) apps::check_same_inputs(facts, ranks);
        apps::with_loaded_model({.source = source,
                                 .bf16 = args.precision == "bf16",
                                 .device = {.kind = args.device,
                                            .local_rank = place.local_rank,
                                            .cores = place.cores,
                                            .products = &engine},
                                 .tensor = ranks.size()},
                                ranks, deadline, place, [&](auto& model) { work(ranks, model); });
      });
}

/// Checks that an option is a file of prompts; the error says how to give LLM Foundry's prompts.
CLI::Validator is_prompts_file() {
  return {
      [](std::string& text) -> std::string {
        std::error_code unreadable;  // an unreadable path counts as absent
        if (std::filesystem::is_regular_file(text, unreadable) ||
            std::filesystem::is_fifo(text, unreadable))
          return {};
        if (text.starts_with("file::"))
          return fmt::format("give a file that is one prompt by --prompt - < {}",
                             mpt::printable(text.substr(6)));
        return fmt::format(
            "there is no file '{}'; give a prompt by --prompt TEXT, several prompts as the lines "
            "of a file",
            mpt::printable(text));
      },
      "", "FILE"};
}

}  // namespace

int main(int argc, char** argv) {
  arguments args;
  auto& sampling = args.options.sampling;
  auto& history = args.options.history;
  CLI::App app{"Continue a prompt, or chat, with a checkpoint or Hugging Face folder"};
  apps::add_examples(app, {"generate ckpt --prompt 'Once upon a time' --temperature 0.8",
                           "generate my-model --prompts prompts.txt --batch 8 --json out.json",
                           "generate my-model --chat"});
  app.add_option("model", args.model,
                 "checkpoint, save folder, Hugging Face folder, or the name of a model on the hub")
      ->required()
      ->check(apps::existing_path_or_name());
  app.add_option("--adapter", args.adapter, "folder of an adapter that PEFT wrote for the model")
      ->check(CLI::ExistingDirectory);
  auto* const input = app.add_option_group("input");
  input->add_option("--prompt", args.prompt, "text to continue; - reads standard input");
  input
      ->add_option("--prompts", args.prompts,
                   "file of prompts: one a line, or JSON lines with \"prompt\"")
      ->check(is_prompts_file());
  auto* const chat = input->add_flag(
      "--chat", args.chat,
      "chat with the model, in the format of the tokenizer's chat_template, or else ChatML");
  input->require_option(1);
  app.add_option("--batch", args.batch, "number of prompts that are continued together")
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  app.add_option("--tensor", args.tensor,
                 "ranks (threads) that each hold a slice of the model; under mpirun leave it out")
      ->check(CLI::Range(1, 4096));
  app.add_option("--system_prompt", args.system, "system prompt of --chat")
      ->capture_default_str()
      ->needs(chat);
  app.add_option("--max_new_tokens", args.options.max_new_tokens, "maximum number of new tokens")
      ->capture_default_str()
      ->check(apps::whole_number(1));
  app.add_option("--temperature", sampling.temperature, "0 is greedy")->capture_default_str();
  app.add_option("--top_k", sampling.top_k, "keep the k most likely tokens; 0: all")
      ->check(apps::whole_number(0));
  app.add_option("--top_p", sampling.top_p,
                 "keep the most likely tokens whose probabilities add up to this");
  app.add_option("--repetition_penalty", history.repetition_penalty,
                 "above 1: tokens that the text already has become less likely")
      ->capture_default_str();
  app.add_option("--no_repeat_ngram_size", history.no_repeat_ngram_size,
                 "no sequence of this many tokens occurs twice; 0: no limit")
      ->check(apps::whole_number(0));
  app.add_option("--stop", args.stops, "a text ends before this string; may be given several times")
      ->expected(1)
      ->take_all()
      ->check([](std::string const& text) {
        return text.empty() ? std::string("expected some characters, found none") : std::string();
      });
  app.add_option("--seed", sampling.seed, "seed of the random choices")
      ->capture_default_str()
      ->check(apps::any_seed());
  app.add_option("--tokenizer", args.tokenizer, "default: the model's own");
  app.add_option("--precision", args.precision, "fp32 or bf16")
      ->capture_default_str()
      ->transform(apps::number_type({"fp32", "bf16"}));
  app.add_option("--device", args.device, "auto (a GPU when there is one), cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  args.json.add_to(app, "prompts, texts and times")->excludes(chat);
  args.is_given = [&app](std::string const& option) { return app.count(option) > 0; };
  apps::settle_threads(argv);
  return apps::run(app, argc, argv, apps::is_primary_here(), [&] {
    check_options(args);
    if (args.prompt == "-") args.prompt = mpt::read_prompt(std::cin);
    generate(args);
  });
}
