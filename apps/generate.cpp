// generate: a model continues a prompt, the prompts of a file, or a conversation.
#include <chrono>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mpt/console/say.hpp>
#include <mpt/generate/chat.hpp>
#include <mpt/generate/generate.hpp>
#include <mpt/generate/prompts.hpp>
#include <mpt/generate/stop_strings.hpp>
#include <mpt/hf/model_source.hpp>
#include <mpt/hf/text_ends.hpp>
#include <mpt/tokenizer/text_affixes.hpp>
#include <mpt/tokenizer/tokenizer.hpp>
#include <mpt/tokenizer/utf8.hpp>
#include <nlohmann/json.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/device/host/stream.hpp>

#include "support/app.hpp"
#include "support/chat_templates.hpp"
#include "support/engine.hpp"
#include "support/launch.hpp"
#include "support/launcher.hpp"
#include "support/loaded_model.hpp"
#include "support/process.hpp"
#include "support/report_file.hpp"

namespace {

struct arguments {
  std::filesystem::path model, adapter, prompts, json;
  std::string tokenizer, prompt, precision = "fp32", device = "auto";
  std::string system = "You are a friendly chatbot who aims to be helpful and honest.";
  std::vector<std::string> stops;
  bool chat = false;
  std::size_t batch = 1;
  std::optional<int> tensor;
  mpt::generation_options options;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// A continuation, and the time of each of its steps.
struct continuation {
  std::string text;
  std::size_t prompt_tokens = 0, tokens = 0;
  double encode = 0, generate = 0, decode = 0;  // seconds

  [[nodiscard]] double total() const { return encode + generate + decode; }
};

using show = std::function<void(std::string const&)>;
using texts = std::vector<std::string>;
/// Continues texts side by side; of one alone shows what becomes certain.
using continue_texts = std::function<std::vector<continuation>(texts const&, show const&)>;

std::vector<continuation> continue_all(arguments const& args, apps::loaded_model& model,
                                       parallel::index longest, mpt::tokenizer const& words,
                                       mpt::text_affixes const& affixes, std::uint64_t first,
                                       texts const& prompts, show const& shown) {
  std::vector<continuation> out(prompts.size());
  std::vector<std::vector<std::int32_t>> ids;
  std::vector<mpt::stopped_text> made;
  std::size_t most = 0;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    auto const begin = std::chrono::steady_clock::now();
    ids.push_back(encode_with_affixes(affixes, words, prompts[i]));
    out[i].encode = seconds_since(begin);
    out[i].prompt_tokens = ids.back().size();
    made.emplace_back(words, args.stops);
    mpt::check_prompt(ids.back().size(), longest);
    most = std::max(most, ids.back().size());
  }
  auto const end_of_turn = args.chat ? words.id_of(mpt::chat_end) : std::nullopt;
  double decoding = 0;
  auto options = args.options;
  options.first_text = first;
  options.ends_text = [&](std::size_t i, std::int32_t id) {
    if (id == end_of_turn) return true;
    auto const from = std::chrono::steady_clock::now();
    bool const ended = made[i].add(id);
    if (shown) shown(made[i].take());
    auto const spent = seconds_since(from);
    out[i].decode += spent;
    decoding += spent;
    return ended;
  };
  auto begin = std::chrono::steady_clock::now();
  auto const reader = model.texts(
      {.tokens = std::min(longest, static_cast<parallel::index>(most) + options.max_new_tokens),
       .texts = prompts.size()});
  auto const written = mpt::generate(*reader, std::span(ids), options);
  auto const generating = (seconds_since(begin) - decoding) / static_cast<double>(prompts.size());
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    begin = std::chrono::steady_clock::now();
    out[i].tokens = written[i].size();
    out[i].generate = generating;
    out[i].text = made[i].finish();
    if (shown) shown(made[i].take());
    out[i].decode += seconds_since(begin);
  }
  return out;
}

/// The times that LLM Foundry prints, in its words.
void print_times(std::vector<continuation> const& all, std::size_t batch) {
  continuation sum;
  for (auto const& one : all) {
    sum.prompt_tokens += one.prompt_tokens;
    sum.tokens += one.tokens;
    sum.encode += one.encode;
    sum.generate += one.generate;
    sum.decode += one.decode;
  }
  double const each =
      1000 * sum.total() / static_cast<double>(std::max<std::size_t>(sum.tokens, 1));
  mpt::console::say(
      "bs={}, total_input_tokens={}, total_output_tokens={}\n"
      "encode_latency={:.2f}ms, gen_latency={:.2f}ms, decode_latency={:.2f}ms, "
      "total_latency={:.2f}ms\n"
      "latency_per_output_token={:.2f}ms/tok\noutput_tok_per_sec={:.2f}tok/sec\n",
      std::min(batch, all.size()), sum.prompt_tokens, sum.tokens, 1000 * sum.encode,
      1000 * sum.generate, 1000 * sum.decode, 1000 * sum.total(), each, 1000 / each);
}

/// Throws where standard output does not take the text.
void print(std::string const& text) {
  fmt::print("{}", text);
  apps::require_printed();
}

nlohmann::ordered_json record_of(std::string const& prompt, continuation const& made) {
  return {{"prompt", prompt},
          {"output", made.text},
          {"prompt_tokens", made.prompt_tokens},
          {"output_tokens", made.tokens},
          {"seconds", made.total()}};
}

void write_json(arguments const& args, std::vector<mpt::file_prompt> const& prompts,
                std::vector<continuation> const& made) {
  if (args.json.empty()) return;
  auto generations = nlohmann::ordered_json::array();
  double seconds = 0;
  std::size_t tokens = 0;
  for (std::size_t i = 0; i < made.size(); ++i) {
    generations.push_back(record_of(prompts[i].text, made[i]));
    seconds += made[i].total();
    tokens += made[i].tokens;
  }
  nlohmann::ordered_json const record{
      {"model", args.model.string()},
      {"generations", std::move(generations)},
      {"seconds", seconds},
      {"output_tokens_per_second", seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0}};
  if (args.json == "-")
    fmt::print("{}\n", record.dump(2));
  else
    apps::write_report_file(args.json, record.dump(2) + "\n");
}

/// Continues all prompts, whose lengths have been checked. `longest`: tokens of a text.
void of_prompts(arguments const& args, std::vector<mpt::file_prompt> const& prompts,
                std::int64_t longest, continue_texts const& go_on) {
  std::vector<continuation> made;
  bool const quiet = args.json == "-";
  bool const streams = args.batch == 1 && !quiet;
  for (std::size_t at = 0; at < prompts.size();) {
    std::size_t const end = std::min(at + args.batch, prompts.size());
    texts group;
    for (std::size_t i = at; i < end; ++i) group.push_back(prompts[i].text);
    if (streams) print(group.front());
    try {
      for (auto& one : go_on(group, streams ? show(print) : show())) made.push_back(std::move(one));
    } catch (parallel::error const& problem) {
      parallel::fail(prompts[at].location, end > at + 1 ? " and those after it: " : ": ",
                     problem.what());
    }
    if (streams) print("\n");
    for (; at < end; ++at) {
      auto const& one = made[at];
      if (!streams && !quiet) print(prompts[at].text + one.text + "\n");
      if (static_cast<std::int64_t>(one.prompt_tokens + one.tokens) == longest &&
          static_cast<std::int64_t>(one.tokens) < args.options.max_new_tokens)
        mpt::console::say("note: {}: ends after {} tokens, as the model reads {} at most\n",
                          prompts[at].location, one.tokens, longest);
    }
  }
  if (args.prompts.empty())
    mpt::console::say("({} tokens after a prompt of {}, {:.0f} tokens/s)\n", made[0].tokens,
                      made[0].prompt_tokens,
                      static_cast<double>(made[0].tokens) / made[0].generate);
  else
    print_times(made, args.batch);
  write_json(args, prompts, made);
}

void of_chat(arguments const& args, mpt::chat_renderer const& render, continue_texts const& go_on) {
  mpt::console::say(
      "A line is a message. clear: begin anew; history: what was said; system: another "
      "system prompt; quit: end.\n");
  auto system = args.system;
  std::vector<mpt::chat_message> said;
  auto const begin_anew = [&] {
    said.clear();
    if (!system.empty()) said.push_back({"system", system});
  };
  begin_anew();
  auto const ask = [](char const* what, std::string& line) {
    mpt::console::say("{}: ", what);
    return static_cast<bool>(std::getline(std::cin, line));
  };
  for (std::string line; ask("user", line);) {
    if (line == "quit" || line == "exit" || line == "q") return;
    if (line.empty()) continue;
    if (!mpt::utf8::is_valid(line)) {
      apps::print_error("that is not UTF-8 text; write it again");
      continue;
    }
    if (line == "clear") {
      begin_anew();
    } else if (line == "history") {
      for (auto const& message : said) print(message.role + ": " + message.content + "\n");
    } else if (line == "system") {
      if (!ask("system", system)) return;
      begin_anew();
    } else {
      said.push_back({"user", line});
      try {
        auto made = std::move(go_on({render(said, true)}, print).front());
        print("\n");
        said.push_back({"assistant", std::move(made.text)});
      } catch (parallel::error const& problem) {  // too long by now, or with marks inside
        said.pop_back();
        apps::print_error(problem.what());
      }
    }
  }
}

/// What rank 0 is asked to continue, the ranks that share its model continue with it.
class shared_work {
 public:
  shared_work(parallel::any_communicator& ranks, continue_texts here)
      : ranks_(ranks), here_(std::move(here)) {}

  /// Rank 0's.
  std::vector<continuation> operator()(texts const& prompts, show const& shown) {
    static_cast<void>(told(nlohmann::json(prompts).dump()));
    return here_(prompts, shown);
  }
  /// Rank 0 has nothing more to continue.
  void end() { static_cast<void>(told("")); }

  /// The others', until that.
  void follow() {
    for (auto text = told(""); !text.empty(); text = told("")) try {
        static_cast<void>(here_(nlohmann::json::parse(text).get<texts>(), {}));
      } catch (parallel::error const&) {  // which rank 0 has too, and tells of
      }
  }

 private:
  [[nodiscard]] std::string told(std::string text) {
    if (ranks_.size() == 1) return text;
    return parallel::broadcast_text(ranks_, exchanges_, std::move(text));
  }

  parallel::any_communicator& ranks_;
  parallel::host::stream exchanges_;
  continue_texts here_;
};

/// Refuses what is wrong with the options before anything is read.
void check(arguments const& args) {
  static_cast<void>(mpt::sampler(args.options.sampling));
  static_cast<void>(mpt::token_history(args.options.history, {}));
  apps::check_report_file("--json", args.json, {args.model, args.prompts});
}

/// What is to be continued, each text short enough for the model.
std::vector<mpt::file_prompt> read_prompts(arguments const& args, mpt::tokenizer const& words,
                                           mpt::text_affixes const& affixes, std::int64_t longest) {
  if (args.chat) return {};
  auto out = args.prompts.empty() ? std::vector<mpt::file_prompt>{{"--prompt", args.prompt}}
                                  : mpt::read_prompts(args.prompts);
  for (auto const& [place, text] : out) {
    parallel::require(mpt::utf8::is_valid(text), place, ": is not UTF-8 text");
    mpt::check_prompt(encode_with_affixes(affixes, words, text).size(), longest, place + ": ");
  }
  return out;
}

void generate(arguments args) {
  apps::require_own_launch();
  mpt::model_source const source(args.model, args.adapter);
  if (!source.note().empty() && apps::is_primary_here())
    mpt::console::say("note: {}\n", source.note());
  auto const where = args.tokenizer.empty() ? source.tokenizer() : args.tokenizer;
  parallel::require(!where.empty(), args.model.string(),
                    " brings no tokenizer; name one with --tokenizer");
  auto const words = mpt::tokenizer::load(where);
  parallel::require(words.size() <= source.config().vocab_size, "the tokenizer has ", words.size(),
                    " tokens, the model only ", source.config().vocab_size,
                    "; name the model's own with --tokenizer");
  auto ends = text_ends_of(source, words);
  if (!ends.note.empty() && apps::is_primary_here()) mpt::console::say("note: {}\n", ends.note);
  args.options.end_tokens = std::move(ends.tokens);
  auto const longest = source.config().max_seq_len;
  auto const affixes = args.chat ? mpt::text_affixes() : mpt::read_text_affixes(words);
  auto const prompts = apps::is_primary_here() ? read_prompts(args, words, affixes, longest)
                                               : std::vector<mpt::file_prompt>();
  mpt::chat_renderer render;
  if (args.chat) {
    render = mpt::read_chat_renderer(words.files(), apps::template_engine());
    args.stops.emplace_back(mpt::chat_end);  // where it is no token of its own
  }
  auto const engine = apps::make_engine();
  auto const work = [&](parallel::any_communicator& ranks, apps::loaded_model& model) {
    std::uint64_t begun = 0;  // texts so far, the same on every rank
    shared_work shared(ranks, [&](texts const& some, show const& shown) {
      auto const first = std::exchange(begun, begun + some.size());
      return continue_all(args, model, longest, words, affixes, first, some, shown);
    });
    if (ranks.rank() > 0) return shared.follow();
    if (args.chat)
      of_chat(args, render, std::ref(shared));
    else
      of_prompts(args, prompts, longest, std::ref(shared));
    shared.end();
  };
  parallel::shared_deadline const deadline =
      std::chrono::seconds(args.chat ? 7 * 86400 : 600);  // who talks may think
  apps::launch(
      {.ranks = args.tensor ? args.tensor : apps::processes_started(), .deadline = deadline},
      [&](parallel::any_communicator& ranks, apps::place const& place) {
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

/// Checks that an option is a file of prompts, and says how LLM Foundry's prompts are given.
CLI::Validator prompts_file() {
  return {[](std::string& text) -> std::string {
            std::error_code unreadable;  // then it is not there
            if (std::filesystem::is_regular_file(text, unreadable) ||
                std::filesystem::is_fifo(text, unreadable))
              return {};
            if (text.starts_with("file::"))
              return fmt::format("a file that is one prompt is read by --prompt - < {}",
                                 mpt::printable(text.substr(6)));
            return fmt::format(
                "there is no file '{}'; a prompt itself is given by --prompt TEXT, several as the "
                "lines of a file",
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
  app.add_option("model", args.model, "checkpoint, save folder, or Hugging Face folder")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--adapter", args.adapter, "PEFT's adapter beside it")
      ->check(CLI::ExistingDirectory);
  auto* const ways = app.add_option_group("what to continue");
  ways->add_option("--prompt", args.prompt, "text to continue; - reads standard input");
  ways->add_option("--prompts", args.prompts,
                   "file of prompts: one a line, or JSON lines with \"prompt\"")
      ->check(prompts_file());
  auto* const chat = ways->add_flag(
      "--chat", args.chat,
      "talk with the model, in the form of the tokenizer's chat_template, else ChatML");
  ways->require_option(1);
  app.add_option("--batch", args.batch, "prompts of a file that are continued side by side")
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  app.add_option("--tensor", args.tensor,
                 "ranks (threads) that each hold a slice of the model; under mpirun leave it out")
      ->check(CLI::Range(1, 4096));
  app.add_option("--system_prompt", args.system, "what --chat begins with")
      ->capture_default_str()
      ->needs(chat);
  app.add_option("--max_new_tokens", args.options.max_new_tokens, "at most so many new tokens")
      ->capture_default_str()
      ->check(apps::whole_number(1));
  app.add_option("--temperature", sampling.temperature, "0 is greedy")->capture_default_str();
  app.add_option("--top_k", sampling.top_k, "keep the k most likely tokens; 0: all")
      ->check(apps::whole_number(0));
  app.add_option("--top_p", sampling.top_p, "keep the most likely tokens of this probability");
  app.add_option("--repetition_penalty", history.repetition_penalty,
                 "above 1: tokens that were there are less likely")
      ->capture_default_str();
  app.add_option("--no_repeat_ngram_size", history.no_repeat_ngram_size,
                 "no run of so many tokens comes twice; 0: any may")
      ->check(apps::whole_number(0));
  app.add_option("--stop", args.stops, "a text ends before this string; may be given several times")
      ->expected(1)
      ->take_all()
      ->check([](std::string const& text) {
        return text.empty() ? std::string("expected some characters, found none") : std::string();
      });
  app.add_option("--seed", sampling.seed, "of the random choices")
      ->capture_default_str()
      ->check(apps::any_seed());
  app.add_option("--tokenizer", args.tokenizer, "default: the model's own");
  app.add_option("--precision", args.precision, "fp32 or bf16")
      ->capture_default_str()
      ->transform(apps::number_type({"fp32", "bf16"}));
  app.add_option("--device", args.device, "auto (a GPU when there is one), cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  app.add_option("--json", args.json,
                 "also write prompts, texts and times as JSON to this file (-: print, alone)")
      ->excludes(chat);
  apps::settle_threads(argv);
  return apps::run(
      app, argc, argv,
      [&] {
        check(args);
        if (args.prompt == "-") args.prompt = mpt::read_prompt(std::cin);
        generate(args);
      },
      apps::is_primary_here());
}
