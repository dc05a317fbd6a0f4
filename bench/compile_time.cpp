// The cost of including a header: processor seconds and peak memory of the compiler, as a Markdown
// table.
//
//   compile_time SOURCE COMPILER RUNS FLOOR [PROGRAM.cpp...]
//
// SOURCE is the source tree. For each public header up to FLOOR (6: all) the program compiles a
// file that includes it alone, with -O2 and no other option, as a user would. It also compiles the
// programs, and the standard headers that every stream needs. The best of RUNS counts. Processor
// time hardly depends on other load of the machine, as long as memory suffices. Headers whose
// libraries are missing are listed as not compiled.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <parallel/core/error.hpp>

namespace {

namespace fs = std::filesystem;

/// The cost of one compilation.
struct cost {
  double seconds = 0;    // of processor time
  double megabytes = 0;  // peak resident memory
  bool is_compiled = false;
};

cost compile_once(std::vector<std::string> const& command) {
  std::vector<char*> words;
  for (std::string const& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  auto const child = ::fork();
  parallel::require(child >= 0, "cannot start a process");
  if (child == 0) {
    int const null_file = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    ::dup2(null_file, 1);
    ::dup2(null_file, 2);
    ::execvp(words[0], words.data());
    ::_exit(127);
  }
  int status = 0;
  ::rusage usage{};
  parallel::require(::wait4(child, &status, 0, &usage) == child, "cannot wait for a process");
  auto const seconds = [](::timeval const& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return {.seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime),
          .megabytes = static_cast<double>(usage.ru_maxrss) / 1024,
          .is_compiled = WIFEXITED(status) && WEXITSTATUS(status) == 0};
}

/// Compiles a file as a user would; returns the cheapest of several runs.
class compiler_run {
 public:
  compiler_run(std::string compiler, fs::path include, int runs)
      : compiler_(std::move(compiler)), include_(std::move(include)), runs_(runs) {}

  cost operator()(fs::path const& source) const {
    cost best;
    for (int run = 0; run < runs_; ++run) {
      auto const attempt = compile_once({compiler_, "-std=c++20", "-O2", "-I" + include_.native(),
                                         "-c", source.native(), "-o", "/dev/null"});
      if (run == 0 || attempt.seconds < best.seconds) best = attempt;
      if (!attempt.is_compiled) break;
    }
    return best;
  }

 private:
  std::string compiler_;
  fs::path include_;
  int runs_;
};

/// The floor of a header by its folder, as in docs/architecture.md.
int floor_of(std::string const& header) {
  auto const is_in = [&](auto... folders) {
    return (header.starts_with(std::string("parallel/") + folders + "/") || ...);
  };
  if (is_in("core")) return 0;
  if (is_in("device")) return 1;
  if (is_in("comm", "ops")) return 2;
  if (is_in("mesh", "unit", "optim", "layer")) return 3;
  if (is_in("train", "checkpoint")) return 5;
  return header.starts_with("mpt/") ? 6 : 4;
}

struct row {
  std::string name;
  cost compilation;
};

void print(std::string const& title, std::vector<row> rows) {
  std::sort(rows.begin(), rows.end(), [](row const& a, row const& b) {
    return a.compilation.seconds > b.compilation.seconds;
  });
  std::printf("\n## %s\n\n| file | seconds | MiB |\n|---|---|---|\n", title.c_str());
  for (auto const& [name, compilation] : rows) {
    if (compilation.is_compiled)
      std::printf("| %s | %.2f | %.0f |\n", name.c_str(), compilation.seconds,
                  compilation.megabytes);
    else
      std::printf("| %s | not compiled | |\n", name.c_str());
  }
}

void measure(fs::path const& root, compiler_run const& compile, int max_floor,
             std::vector<fs::path> const& programs) {
  auto const include = root / "include";
  auto const unit =
      fs::temp_directory_path() / ("compile-time-" + std::to_string(::getpid()) + ".cpp");
  auto const compile_text = [&](std::string const& text) {
    std::ofstream(unit, std::ios::trunc) << text;
    return compile(unit);
  };
  std::vector<row> programs_and_headers{
      {"condition_variable, deque, memory, mutex, thread",
       compile_text("#include <condition_variable>\n#include <deque>\n"
                    "#include <memory>\n#include <mutex>\n#include <thread>\n")}};
  for (auto const& program : programs)
    programs_and_headers.push_back(
        {fs::canonical(program).lexically_relative(root).native(), compile(program)});

  std::vector<row> headers;
  for (auto const& entry : fs::recursive_directory_iterator(include)) {
    auto const header = entry.path().lexically_relative(include).native();
    if (entry.path().extension() != ".hpp" || floor_of(header) > max_floor) continue;
    headers.push_back({header, compile_text("#include <" + header + ">\n")});
    std::fprintf(stderr, "%s %.2f s\n", header.c_str(), headers.back().compilation.seconds);
  }
  fs::remove(unit);
  auto const slow_count = std::count_if(headers.begin(), headers.end(), [](row const& header) {
    return floor_of(header.name) <= 3 && header.compilation.seconds > 0.5;
  });
  std::printf("%td headers of floors 0 to 3 take more than 0.5 s.\n", slow_count);
  print("Programs, and standard headers", programs_and_headers);
  print("Headers", headers);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fputs("usage: compile_time SOURCE COMPILER RUNS FLOOR [PROGRAM.cpp...]\n", stderr);
    return 2;
  }
  try {
    auto const root = fs::canonical(argv[1]);
    std::printf(
        "# Compile time\n\nProcessor seconds and peak memory of `%s -std=c++20 -O2 -c`, best of "
        "%s. ",
        argv[2], argv[3]);
    measure(root, compiler_run(argv[2], root / "include", std::stoi(argv[3])), std::stoi(argv[4]),
            {argv + 5, argv + argc});
    return 0;
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "error: %s\n", problem.what());
    return 1;
  }
}
