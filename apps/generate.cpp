// generate: a model continues a prompt, the prompts of a file, or a conversation.
#include <chrono>
#include <filesystem>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <mpt/console/say.hpp>
#include <mpt/generate/chat.hpp>
#include <mpt/generate/generate.hpp>
#include <mpt/generate/prompts.hpp>
#include <mpt/generate/stop_strings.hpp>
#include <mpt/hf/model_source.hpp>
#include <mpt/tokenizer/around_text.hpp>
#include <mpt/tokenizer/tokenizer.hpp>
#include <nlohmann/json.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/train/weights.hpp>

#include "devices.hpp"
#include "support/app.hpp"
#include "support/engine.hpp"
#include "support/launcher.hpp"
#include "support/report_file.hpp"

namespace {

struct arguments {
  std::filesystem::path model, prompts, json;
  std::string tokenizer, prompt, precision = "fp32", device = "auto";
  std::string system = "You are a friendly chatbot who aims to be helpful and honest.";
  std::vector<std::string> stops;
  bool chat = false;
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
/// Continues a text, showing what becomes certain; ends at one of `ends`, too.
using continue_text = std::function<continuation(std::string const&, show const&)>;

template <class T, class Device>
continuation continue_one(arguments const& args, mpt::model<T> const& net, Device& device,
                          typename Device::stream_type& stream, mpt::tokenizer const& words,
                          mpt::around_text const& around, std::string const& prompt,
                          show const& shown) {
  continuation out;
  auto begin = std::chrono::steady_clock::now();
  auto const ids = encode_with(around, words, prompt);
  out.encode = seconds_since(begin);
  out.prompt_tokens = ids.size();
  mpt::stopped_text text(words, args.stops);
  auto const end_of_turn = args.chat ? words.id_of(mpt::chat_end) : std::nullopt;
  auto options = args.options;
  options.last = [&](std::int32_t id) {
    if (id == end_of_turn) return true;
    auto const from = std::chrono::steady_clock::now();
    bool const ended = text.add(id);
    if (shown) shown(text.take());
    out.decode += seconds_since(from);
    return ended;
  };
  begin = std::chrono::steady_clock::now();
  out.tokens = mpt::generate(net, device, stream, ids, options).size();
  out.generate = seconds_since(begin) - out.decode;
  begin = std::chrono::steady_clock::now();
  out.text = text.finish();
  if (shown) shown(text.take());
  out.decode += seconds_since(begin);
  return out;
}

/// The times that LLM Foundry prints, in its words.
void print_times(std::vector<continuation> const& all) {
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
      all.size(), sum.prompt_tokens, sum.tokens, 1000 * sum.encode, 1000 * sum.generate,
      1000 * sum.decode, 1000 * sum.total(), each, 1000 / each);
}

void print(std::string const& text) {
  fmt::print("{}", text);
  std::fflush(stdout);
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
                std::int64_t longest, continue_text const& go_on) {
  std::vector<continuation> made;
  bool const quiet = args.json == "-";
  for (auto const& prompt : prompts) {
    if (!quiet) print(prompt.text);
    try {
      made.push_back(go_on(prompt.text, quiet ? show() : show(print)));
    } catch (parallel::error const& problem) {
      parallel::fail(prompt.place, ": ", problem.what());
    }
    if (!quiet) print("\n");
    auto const& one = made.back();
    if (static_cast<std::int64_t>(one.prompt_tokens + one.tokens) == longest &&
        static_cast<std::int64_t>(one.tokens) < args.options.max_new_tokens)
      mpt::console::say("note: {}: ends after {} tokens, as the model reads {} at most\n",
                        prompt.place, one.tokens, longest);
  }
  if (args.prompts.empty())
    mpt::console::say("({} tokens after a prompt of {}, {:.0f} tokens/s)\n", made[0].tokens,
                      made[0].prompt_tokens,
                      static_cast<double>(made[0].tokens) / made[0].generate);
  else
    print_times(made);
  write_json(args, prompts, made);
}

void of_chat(arguments const& args, mpt::chat_form form, continue_text const& go_on) {
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
        auto made = go_on(chat_text(said, form), print);
        print("\n");
        said.push_back({"assistant", std::move(made.text)});
      } catch (parallel::error const& problem) {  // too long by now, or with marks inside
        said.pop_back();
        apps::print_error(problem.what());
      }
    }
  }
}

/// Refuses what is wrong with the options before anything is read.
void check(arguments const& args) {
  static_cast<void>(mpt::sampler(args.options.sampling));
  static_cast<void>(mpt::token_history(args.options.history, {}));
  apps::check_report_file("--json", args.json, {args.model, args.prompts});
}

std::vector<mpt::file_prompt> prompts_of(arguments const& args) {
  if (args.chat) return {};
  if (!args.prompts.empty()) return mpt::read_prompts(args.prompts);
  return {{"--prompt", args.prompt}};
}

template <class T>
void generate(arguments args) {
  mpt::model_source const source(args.model);
  if (!source.note().empty()) mpt::console::say("note: {}\n", source.note());
  auto const where = args.tokenizer.empty() ? source.tokenizer() : args.tokenizer;
  parallel::require(!where.empty(), args.model.string(),
                    " brings no tokenizer; name one with --tokenizer");
  auto const words = mpt::tokenizer::load(where);
  parallel::require(words.size() <= source.config().vocab_size, "the tokenizer has ", words.size(),
                    " tokens, the model only ", source.config().vocab_size,
                    "; name the model's own with --tokenizer");
  args.options.end_of_text = words.eos_id().value_or(-1);
  auto const longest = source.config().max_seq_len;
  auto const around = args.chat ? mpt::around_text() : mpt::read_around_text(words);
  auto const prompts = prompts_of(args);
  for (auto const& [place, text] : prompts) {
    auto const tokens = static_cast<std::int64_t>(encode_with(around, words, text).size());
    parallel::require(tokens > 0, place, ": the prompt has no tokens; give at least one word");
    parallel::require(tokens < longest, place, ": the prompt has ", tokens,
                      " tokens, but the model reads at most ", longest - 1, " before a new one");
  }
  mpt::chat_form form;
  if (args.chat) {
    form = mpt::read_chat_form(words.files());
    args.stops.emplace_back(mpt::chat_end);  // where it is no token of its own
  }
  auto const engine = apps::make_engine();
  apps::with_device(
      apps::whole_machine(args.device, engine), [&]<class Device>(Device& device, auto const&) {
        typename Device::stream_type stream(device.compute_options());
        mpt::model<T> net(source.config());
        parallel::train::weights<T> const weights(net, device);
        source.load(weights, device);
        continue_text const go_on = [&](std::string const& prompt, show const& shown) {
          return continue_one(args, net, device, stream, words, around, prompt, shown);
        };
        if (args.chat)
          of_chat(args, form, go_on);
        else
          of_prompts(args, prompts, longest, go_on);
      });
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
  auto* const ways = app.add_option_group("what to continue");
  ways->add_option("--prompt", args.prompt, "text to continue; - reads standard input");
  ways->add_option("--prompts", args.prompts,
                   "file of prompts: one a line, or JSON lines with \"prompt\"")
      ->check(CLI::ExistingFile);
  ways->add_flag("--chat", args.chat, "talk with a model that was trained on ChatML");
  ways->require_option(1);
  app.add_option("--system_prompt", args.system, "what --chat begins with")->capture_default_str();
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
      ->take_all();
  app.add_option("--seed", sampling.seed, "of the random choices")
      ->capture_default_str()
      ->check(apps::any_seed());
  app.add_option("--tokenizer", args.tokenizer, "default: the model's own");
  app.add_option("--precision", args.precision, "fp32 or bf16")
      ->capture_default_str()
      ->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--device", args.device, "auto (a GPU when there is one), cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  app.add_option("--json", args.json,
                 "also write prompts, texts and times as JSON to this file (-: print, alone)");
  return apps::run(
      app, argc, argv,
      [&] {
        apps::require_one_process();
        check(args);
        if (args.prompt == "-") args.prompt = mpt::read_prompt(std::cin);
        args.precision == "bf16" ? generate<parallel::bf16>(args) : generate<float>(args);
      },
      apps::is_primary_here());
}
