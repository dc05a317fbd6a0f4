#include <cli/completion.hpp>

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace {

/// An option as shells complete it.
struct completed_option {
  std::vector<std::string> names;  ///< "--json", "-n"
  std::string description;
  std::string value_name;            ///< "TEXT"; empty for a flag
  std::vector<std::string> choices;  ///< its values, where they are known
};

/// The words of CLI11's "TEXT:{auto,cpu,cuda}".
[[nodiscard]] std::vector<std::string> choices_in(std::string const& type) {
  auto const begin = type.find('{');
  auto const end = type.find('}', begin == type.npos ? 0 : begin);
  if (begin == type.npos || end == type.npos) return {};
  std::vector<std::string> out;
  std::string word;
  for (char const c : type.substr(begin + 1, end - begin - 1) + ',') {
    if (c != ',') {
      word += c;
    } else if (!word.empty()) {
      out.push_back(std::exchange(word, {}));
    }
  }
  return out;
}

void add_options(std::vector<completed_option>& out, CLI::App const& app) {
  for (auto const* const option : app.get_options()) {
    completed_option added;
    for (auto const& name : option->get_lnames()) added.names.push_back("--" + name);
    for (auto const& name : option->get_snames()) added.names.push_back("-" + name);
    if (added.names.empty()) continue;  // positional
    auto const is_known = [&](completed_option const& known) {
      return known.names == added.names;  // each group has a --help
    };
    if (std::ranges::any_of(out, is_known)) continue;
    added.description = option->get_description();
    auto const type = option->get_type_name();
    if (option->get_items_expected_max() > 0) added.value_name = type.substr(0, type.find(':'));
    added.choices = choices_in(type);
    out.push_back(std::move(added));
  }
  for (auto const* const part : app.get_subcommands(nullptr)) add_options(out, *part);
}

[[nodiscard]] std::vector<std::string> subcommands_of(CLI::App const& app) {
  std::vector<std::string> out;
  for (auto const* const command : app.get_subcommands(nullptr))
    if (!command->get_name().empty()) out.push_back(command->get_name());
  return out;
}

/// The program's name as a shell's identifier.
[[nodiscard]] std::string function_name(std::string_view program) {
  std::string out = "_parallellm_";
  for (char const c : program) out += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return out;
}

/// `text` between single quotes, as both shells read it.
[[nodiscard]] std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (char const c : text) c == '\'' ? out += "'\\''" : out += c;
  return out + "'";
}

/// A shell function CURRENT PROGRAM WORD... for bash and zsh. It prints how the word `CURRENT` of
/// that command line can continue as a key of its YAML: "max_duration=", or "model." where several
/// keys follow a dot. The words have no quotes; a home folder at their beginning is put in here.
[[nodiscard]] std::string keys_function(std::string const& name) {
  return fmt::format(
      R"sh({name}() {{
  local current=$1 key form rest last= word line=()
  shift
  for word in "$@"; do
    case $word in
    '~/'*) word=$HOME${{word#'~'}} ;;
    '$HOME/'*) word=$HOME${{word#'$HOME'}} ;;
    esac
    line+=("$word")
  done
  "${{line[@]}}" --keys 2> /dev/null | while IFS=$'\t' read -r key form; do
    [[ $key == "$current"* ]] || continue
    rest=${{key#"$current"}}
    if [[ $rest == *.* ]]; then key=$current${{rest%%.*}}.; else key=$key=; fi
    [[ $key == "$last" ]] || printf '%s\n' "$key"
    last=$key
  done
}}
)sh",
      fmt::arg("name", name));
}

/// The part of bash's function that completes keys. bash divides words at "=" and ":", so they are
/// joined again; after "=" there are files.
[[nodiscard]] std::string bash_keys(std::string const& function) {
  return fmt::format(
      R"sh(
  if [[ -z $words && $current != [-=]* && ${{COMP_WORDS[COMP_CWORD - 1]}} != = ]]; then
    local line=() word is_joined=
    for word in "${{COMP_WORDS[@]:0:COMP_CWORD}}"; do
      [[ $word != [=:]* ]] || is_joined=1
      [[ $is_joined ]] || line+=('')
      line[-1]+=${{word//[\"\'\\]/}}
      [[ $word == [=:]* ]] || is_joined=
    done
    ((${{#line[@]}} < 2)) || mapfile -t COMPREPLY < <({function}_keys "$current" "${{line[@]}}")
    ((${{#COMPREPLY[@]}} == 0)) || compopt -o nospace
  fi)sh",
      fmt::arg("function", function));
}

/// The part of zsh's function that completes keys, and files after "=".
[[nodiscard]] std::string zsh_keys(std::string const& function) {
  return fmt::format(
      R"sh(  if [[ $PREFIX == [a-z]*=* ]]; then
    compset -P '*='
    _files
    return
  fi
  local found=()
  if ((CURRENT > 2)) && [[ $PREFIX != -* ]]; then
    found=(${{(f)"$({function}_keys "$PREFIX" "${{(@Q)words[1,CURRENT-1]}}")"}})
  fi
  if ((${{#found}} > 0)); then
    compadd -S '' -- $found
    return
  fi
)sh",
      fmt::arg("function", function));
}

/// Whether `app` prints the keys that the YAML of its command line may have.
[[nodiscard]] bool has_keys(CLI::App const& app) {
  return app.get_option_no_throw("--keys") != nullptr;
}

[[nodiscard]] std::string bash_script(std::string_view program,
                                      std::vector<completed_option> const& options,
                                      std::vector<std::string> const& subcommands,
                                      bool completes_keys) {
  std::string names;
  std::string values;
  for (auto const& option : options) {
    names += fmt::format("{} ", fmt::join(option.names, " "));
    if (!option.choices.empty())
      values += fmt::format("    {}) words='{}' ;;\n", fmt::join(option.names, "|"),
                            fmt::join(option.choices, " "));
  }
  auto const function = function_name(program);
  auto const keys = completes_keys ? bash_keys(function) : std::string();
  return fmt::format(
      R"sh({keys_function}{function}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} words=
  COMPREPLY=()
  case ${{COMP_WORDS[COMP_CWORD - 1]}} in
{values}  esac
  if [[ -z $words && $current == -* ]]; then words='{names}'; fi
  if [[ -z $words && $COMP_CWORD -eq 1 ]]; then words='{subcommands}'; fi{keys}
  [[ -z $words ]] || mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}}
complete -o default -o bashdefault -F {function} {program}
)sh",
      fmt::arg("keys_function", completes_keys ? keys_function(function + "_keys") : ""),
      fmt::arg("function", function), fmt::arg("values", values), fmt::arg("names", names),
      fmt::arg("subcommands", fmt::join(subcommands, " ")), fmt::arg("keys", keys),
      fmt::arg("program", program));
}

[[nodiscard]] std::string zsh_script(std::string_view program,
                                     std::vector<completed_option> const& options,
                                     std::vector<std::string> const& subcommands,
                                     bool completes_keys) {
  std::string arguments;
  for (auto const& option : options) {
    std::string description;
    for (char const c : option.description) {
      if (c == '[' || c == ']' || c == ':' || c == '\\') description += '\\';
      description += c;
    }
    auto const value = option.value_name.empty() ? std::string()
                       : option.choices.empty()  ? fmt::format(":{}:_files", option.value_name)
                                                 : fmt::format(":{}:({})", option.value_name,
                                                               fmt::join(option.choices, " "));
    for (auto const& name : option.names)
      arguments += fmt::format(" \\\n    {}",
                               shell_quoted(fmt::format("*{}[{}]{}", name, description, value)));
  }
  auto const first = subcommands.empty()
                         ? std::string()
                         : fmt::format(" \\\n    '1:command:({})'", fmt::join(subcommands, " "));
  auto const function = function_name(program);
  auto const keys = completes_keys ? zsh_keys(function) : std::string();
  return fmt::format(
      R"sh(#compdef {program}
{keys_function}{function}() {{
{keys}  _arguments{arguments}{first} \
    '*:file:_files'
}}
compdef {function} {program}
)sh",
      fmt::arg("keys_function", completes_keys ? keys_function(function + "_keys") : ""),
      fmt::arg("function", function), fmt::arg("keys", keys), fmt::arg("arguments", arguments),
      fmt::arg("first", first), fmt::arg("program", program));
}

}  // namespace

std::string apps::completion_script(CLI::App const& app, std::string_view program,
                                    std::string_view shell) {
  std::vector<completed_option> options;
  add_options(options, app);
  auto const subcommands = subcommands_of(app);
  return shell == "zsh" ? zsh_script(program, options, subcommands, has_keys(app))
                        : bash_script(program, options, subcommands, has_keys(app));
}
