// The functions of app.hpp, compiled once for the command lines of all programs.
#include <cli/app.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <mpt/yaml/nearest.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/core/version.hpp>

#include <cli/completion.hpp>
#include <cli/foreign_options.hpp>
#include <launch/launch.hpp>
#include <process/exit_code.hpp>
#include <process/process.hpp>

namespace {

using apps::print_error;

/// Prints the error that ends this process. The processes of a machine mostly fail for the same
/// reason, and launchers end all of them when the first one fails. So the primary process prints
/// immediately. Every other process waits first, and prints only if it is still alive, because then
/// it failed for another reason.
void print_final_error(std::string const& text, bool is_primary) {
  if (!is_primary) std::this_thread::sleep_for(std::chrono::seconds(10));
  print_error(text.c_str());
}

/// The words of a command line that look like options and are not options of `app`, up to "--" or
/// to the program that `app` starts.
std::vector<std::string> unknown_options(CLI::App const& app, int argc, char const* const* argv) {
  std::vector<std::string> out;
  if (app.get_prefix_command()) {
    auto const rest = app.remaining();
    if (!rest.empty() && rest.front().starts_with('-')) out.push_back(rest.front());
    return out;
  }
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    std::string_view const word = argv[i];
    bool const is_short = word.size() == 2 && word[0] == '-' && std::isalpha(word[1]) != 0;
    if (!word.starts_with("--") && !is_short) continue;
    std::string const name(word.substr(0, word.find('=')));
    bool const is_of_command = std::ranges::any_of(
        app.get_subcommands(nullptr),
        [&](CLI::App const* command) { return command->get_option_no_throw(name) != nullptr; });
    if (app.get_option_no_throw(name) == nullptr && !is_of_command) out.emplace_back(word);
  }
  return out;
}

/// The message for an option that `app` does not have.
std::string describe_unknown_option(CLI::App const& app, std::string_view program,
                                    std::string const& option) {
  auto const name = mpt::printable(option.substr(0, option.find('=')));
  if (auto const advice = apps::foreign_option_advice(program, option); !advice.empty())
    return fmt::format("{} is not an option: {}", name, advice);
  std::vector<std::string> known;
  for (auto const* const known_option : app.get_options())
    for (auto const& word : known_option->get_lnames()) known.push_back(word);
  auto const nearest = name.size() > 2 ? mpt::nearest_name(name.substr(2), known) : std::string();
  if (!nearest.empty())
    return fmt::format("{} is not an option; did you mean --{}?", name, nearest);
  if ((program == "pretrain" || program == "finetune") && name.size() > 2)
    return fmt::format(
        "{0} is not an option; settings of the YAML are changed by key=value: {1}=VALUE", name,
        name.substr(2));
  return name + " is not an option";
}

/// The message for a command line in which `problem` was found. Unknown options have precedence
/// over `problem`, since the parser takes their values for other arguments.
std::string describe_parse_error(CLI::App const& app, CLI::ParseError const& problem, int argc,
                                 char const* const* argv) {
  std::vector<std::string> texts;
  auto const program = std::filesystem::path(argv[0]).filename().string();
  for (auto const& option : unknown_options(app, argc, argv))
    texts.push_back(describe_unknown_option(app, program, option));
  return texts.empty() ? problem.what() : fmt::format("{}", fmt::join(texts, "; "));
}

/// Refuses a stack so small that this process, or a thread, whose stack has the same size, would
/// end by a segmentation fault without a message.
void require_stack() {
  constexpr ::rlim_t min_bytes = ::rlim_t{1} << 20;
  ::rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= min_bytes) return;
  parallel::fail<parallel::limit_reached>("the stacks of this process may have ",
                                          limit.rlim_cur >> 10, " KiB, expected at least ",
                                          min_bytes >> 10, "; raise the limit on them (ulimit -s)");
}

/// Puts the table of exit codes in front of what ends the program's --help.
void add_exit_codes(CLI::App& app) {
  std::string text = "Exit codes (docs/errors.md says what to do):";
  for (auto const& [code, cause, what_to_do] : apps::exit_codes)
    text += fmt::format("\n  {:<3} {}", static_cast<int>(code), cause);
  app.footer(app.get_footer().empty() ? text : text + "\n\n" + app.get_footer());
}

/// Prints the completion script for `shell`.
void print_completion(CLI::App const& app, std::string const& program, std::string const& shell) {
  parallel::require(std::ranges::find(apps::completion_shells, std::string_view(shell)) !=
                        std::end(apps::completion_shells),
                    "--completion: expected bash or zsh, found '", mpt::printable(shell), "'");
  fmt::print("{}", apps::completion_script(app, program, shell));
}

}  // namespace

namespace apps {

CLI::Validator number_type(std::vector<std::string> names) {
  return {[names = std::move(names)](std::string& text) -> std::string {
            constexpr std::array<std::array<std::string_view, 4>, 3> types = {
                {{"float32", "fp32", "float", "f32"},
                 {"bfloat16", "bf16", "amp_bf16", "bf16"},
                 {"float16", "fp16", "amp_fp16", "half"}}};
            std::string_view word = text;
            if (word.starts_with("torch.")) word.remove_prefix(6);
            for (auto const& type : types)
              if (std::ranges::find(type, word) != type.end())
                for (auto const& name : names)
                  if (std::ranges::find(type, std::string_view(name)) != type.end()) {
                    text = name;
                    return {};
                  }
            return fmt::format("expected {}, found '{}'", fmt::join(names, " or "),
                               mpt::printable(text));
          },
          "", "TYPE"};
}

int run(CLI::App& app, int argc, char** argv, bool is_primary, std::function<void()> const& body) {
  settle_process();
  auto const program = std::filesystem::path(argv[0]).filename().string();
  app.set_version_flag("--version", "ParallelLM " + to_string(parallel::library_version));
  std::string shell;
  app.add_option("--completion", shell,
                 "alone: print a script that completes this command line in bash or zsh, "
                 "source <(" +
                     program + " --completion bash)");
  add_exit_codes(app);
  try {
    bool const asks_completion = argc == 3 && std::string_view(argv[1]) == "--completion";
    if (!asks_completion) {
      app.parse(argc, argv);
      parallel::require(shell.empty(), "--completion is given alone, with the name of a shell");
      require_stack();
      body();
    } else {
      print_completion(app, program, argv[2]);
    }
    require_printed();
    return 0;
  } catch (CLI::ParseError const& problem) {
    if (problem.get_exit_code() == 0) return app.exit(problem);  // --help, --version
    print_final_error(
        fmt::format("{}; --help lists the options", describe_parse_error(app, problem, argc, argv)),
        is_primary);
    return 1;
  } catch (refusal const& problem) {
    return static_cast<int>(problem.code());
  } catch (reported const& failure) {
    return static_cast<int>(failure.code);
  } catch (stopped_early const&) {
    return static_cast<int>(exit_code::go_on);
  } catch (std::exception const& problem) {
    auto const code = static_cast<int>(code_of_current_exception());
    print_final_error(sentence_of(problem), is_primary);
    return code;
  }
}

}  // namespace apps
