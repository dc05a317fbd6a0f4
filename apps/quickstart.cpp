// quickstart: from raw text to a trained, evaluated and exported MPT that generates text.
//
// Runs the other programs one after the other, each as a user would, shows their command lines, and
// ends with a table of the results and their files. When quickstart runs again, every step
// continues or is already complete. The first half trains and needs no program of the second half:
// `./run pretrain` builds those of the second half meanwhile.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <mpt/console/format.hpp>
#include <mpt/console/table.hpp>
#include <nlohmann/json.hpp>
#include <parallel/core/error.hpp>

#include <cli/app.hpp>

namespace {

namespace fs = std::filesystem;
using strings = std::vector<std::string>;

struct arguments {
  fs::path out = "runs/first";
  fs::path config;
  std::string prompt = "The most important thing";
  bool only_train = false, trained = false;
  strings overrides;
  std::vector<fs::path> files;
};

strings operator+(strings left, strings const& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

class quickstart {
 public:
  explicit quickstart(arguments args)
      : args_(std::move(args)), programs_(fs::read_symlink("/proc/self/exe").parent_path()) {}

  void run() {
    auto const begin = std::chrono::steady_clock::now();
    if (!args_.trained) train();
    if (args_.only_train) return;
    use();
    table(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }

 private:
  void train() {
    auto const out = args_.out;
    strings const text = names(args_.files);
    step("tokenizer", "train_tokenizer",
         strings{"--vocab_size", "4096", "--out", out / "tokenizer"} + text);
    for (std::string const split : {"train", "val"})
      step("prepare " + split, "prepare",
           strings{"--tokenizer", out / "tokenizer", "--concat_tokens", "256", "--eos_text",
                   "<|endoftext|>", "--compression", "zstd", "--out_root", out / "data", "--split",
                   split, "--hold_out", "20", "--part", split == "val" ? "held_out" : "rest"} +
               text);
    step("pretrain", "pretrain",
         strings{args_.config, "variables.data_local=" + (out / "data").string(),
                 "tokenizer.name=" + (out / "tokenizer").string(),
                 "save_folder=" + (out / "checkpoints").string(),
                 "metrics_file=" + (out / "metrics.jsonl").string()} +
             args_.overrides);
  }

  void use() {
    auto const out = args_.out;
    step("evaluate", "evaluate",
         {out / "checkpoints", "--data", out / "data" / "val", "--json", out / "evaluation.json"});
    step("export", "convert", {out / "checkpoints", out / "huggingface", "--replace"});
    step("generate", "generate",
         {out / "huggingface", "--prompt", args_.prompt, "--max_new_tokens", "60", "--temperature",
          "0.7", "--top_k", "50", "--seed", "17"});
    step("page", "report", {out, "--out", out / "report.html"});
  }

  static strings names(std::vector<fs::path> const& files) {
    strings out;
    for (auto const& file : files) out.push_back(file.string());
    return out;
  }

  /// Runs a program from this program's folder and waits for it; its failure ends quickstart.
  void step(std::string const& title, std::string const& program, strings const& words) {
    char const* const no_color = std::getenv("NO_COLOR");  // empty counts as not set
    bool const styled = ::isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || *no_color == '\0');
    auto const style = [&](char const* code) { return styled ? code : ""; };
    fmt::print("\n{}{}{}  {}{}{}\n", style("\x1b[1m"), title, style("\x1b[0m"), style("\x1b[2m"),
               shown(program, words), style("\x1b[0m"));
    std::fflush(stdout);
    pid_t const child = ::fork();
    parallel::require(child >= 0, "could not start ", program);
    if (child == 0) {
      auto const path = (programs_ / program).string();
      std::vector<char*> argv{const_cast<char*>(path.c_str())};
      for (auto const& word : words) argv.push_back(const_cast<char*>(word.c_str()));
      argv.push_back(nullptr);
      ::execv(path.c_str(), argv.data());
      std::fputs("error: could not run the program\n", stderr);
      ::_exit(127);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    parallel::require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the step '", title,
                      "' failed; mend what it says and run the same command again: finished steps "
                      "are kept");
  }

  /// The command line, with the number of text files instead of their names.
  [[nodiscard]] std::string shown(std::string const& program, strings const& words) const {
    std::string line = program;
    std::size_t files = 0;
    for (auto const& word : words) {
      if (std::ranges::find(args_.files, fs::path(word)) != args_.files.end())
        ++files;
      else
        line += word.find_first_of(" <|>") == std::string::npos ? " " + word : " '" + word + "'";
    }
    return files == 0 ? line : fmt::format("{} … {} files", line, files);
  }

  static nlohmann::json read(fs::path const& file) {
    std::ifstream in(file);
    parallel::require(in.good(), "cannot read ", file.string());
    return nlohmann::json::parse(in);
  }

  void table(double seconds) const {
    namespace console = mpt::console;
    auto const out = args_.out;
    auto const summary = read(out / "checkpoints" / "summary.json");
    auto const evaluation = read(out / "evaluation.json");
    auto const train = read(out / "data" / "train" / "prepare.json");
    console::table table("ParallelLM: what was done, and where it is");
    table.row("text", fmt::format("{} files, {} of training text", args_.files.size(),
                                  console::bytes(train.at("bytes").get<double>())));
    table.row("tokens", fmt::format("{} prepared, {} trained on",
                                    console::count(train.at("tokens").get<double>()),
                                    console::count(summary.at("tokens").get<double>())));
    table.row("model", summary.at("model").get<std::string>());
    table.row("ranks", summary.at("ranks_text").get<std::string>());
    table.row("speed", fmt::format("{} tokens/s, MFU {:.1f} % of {} matrix rate (causal {:.1f} %)",
                                   console::count(summary.at("tokens_per_second").get<double>()),
                                   100 * summary.at("mfu").get<double>(),
                                   summary.at("engine").get<std::string>(),
                                   100 * summary.at("mfu_causal").get<double>()));
    table.row("peak memory", console::bytes(summary.at("peak_memory_bytes").get<double>()));
    table.row("held-out loss",
              fmt::format("{:.4f} nats, perplexity {:.2f}, next token right {:.1f} %",
                          evaluation.at("cross_entropy").get<double>(),
                          evaluation.at("perplexity").get<double>(),
                          100 * evaluation.at("token_accuracy").get<double>()));
    table.row("unigram loss",
              fmt::format("{:.4f} nats on the same tokens: what a model without context reaches",
                          evaluation.at("unigram_cross_entropy").get<double>()));
    auto const training = console::duration(summary.at("seconds").get<double>()) + " training";
    table.row("wall clock",
              args_.trained ? training
                            : fmt::format("{} in all, {}", console::duration(seconds), training));
    table.separator();
    table.row("checkpoints", (out / "checkpoints").string());
    table.row("Hugging Face", (out / "huggingface").string() + " (MptForCausalLM)");
    table.row("metrics", (out / "metrics.jsonl").string());
    table.row("page", fs::absolute(out / "report.html").string() + " (open it in a browser)");
    fmt::print("\n{}", table.text());
  }

  arguments args_;
  fs::path programs_;
};

}  // namespace

int main(int argc, char** argv) {
  arguments args;
  CLI::App app{"Raw text to a trained, evaluated, exported MPT that speaks"};
  apps::add_examples(app,
                     {"quickstart --config apps/configs/small.yaml --out runs/first book.txt"});
  app.add_option("--out", args.out, "folder for all results")->capture_default_str();
  app.add_option("--config", args.config, "training YAML")->required()->check(CLI::ExistingFile);
  app.add_option("--prompt", args.prompt, "text that the model continues")->capture_default_str();
  app.add_option("--set", args.overrides, "key=value of the training YAML; may be repeated")
      ->allow_extra_args(false);
  auto* const only_train = app.add_flag("--only_train", args.only_train, "end when it is trained");
  app.add_flag("--trained", args.trained, "begin where --only_train ended")->excludes(only_train);
  app.add_option("files", args.files, "text files")->required()->check(CLI::ExistingFile);
  return apps::run(app, argc, argv, [&] { quickstart(args).run(); });
}
