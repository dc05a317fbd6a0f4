// Runs a target without a fuzzer: `fuzz_replay TARGET FOLDER COUNT [DICTIONARY]` runs the target
// over its corpus and over COUNT mutations of it, which are the same every time. An input that is a
// finding is left in the file finding-TARGET.
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "targets.hpp"

namespace {

std::string content_of(std::filesystem::path const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The contents of a folder's files, in the order of their names.
std::vector<std::string> inputs_of(std::filesystem::path const& folder) {
  std::vector<std::filesystem::path> paths;
  for (auto const& entry : std::filesystem::directory_iterator(folder))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> inputs;
  for (auto const& path : paths) inputs.push_back(content_of(path));
  return inputs;
}

/// The words of a libFuzzer dictionary: the text between the quotes of each line, in which \xHH is
/// a byte.
std::vector<std::string> words_of(std::filesystem::path const& dictionary) {
  std::vector<std::string> words;
  std::ifstream file(dictionary);
  for (std::string line; std::getline(file, line);) {
    auto const open = line.find('"');
    auto const close = line.rfind('"');
    if (line.starts_with('#') || close == open) continue;
    std::string word;
    for (auto position = open + 1; position < close; ++position) {
      if (line[position] == '\\' && line[position + 1] == 'x') {
        unsigned value = 0;
        std::from_chars(line.data() + position + 2, line.data() + position + 4, value, 16);
        word += static_cast<char>(value);
        position += 3;
      } else {
        if (line[position] == '\\') ++position;
        word += line[position];
      }
    }
    words.push_back(word);
  }
  return words;
}

/// Mutates inputs by a few random changes, which are the same every time (splitmix64).
class mutator {
 public:
  explicit mutator(std::vector<std::string> words) : words_(std::move(words)) {}

  std::string operator()(std::span<std::string const> corpus) {
    auto input = corpus[draw(corpus.size())];
    for (auto left = 1 + draw(6); left > 0; --left) change(input, corpus);
    return input;
  }

 private:
  std::size_t draw(std::size_t limit) {
    auto z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return static_cast<std::size_t>((z ^ (z >> 31)) % limit);
  }

  void change(std::string& input, std::span<std::string const> corpus) {
    auto const position = draw(input.size() + 1);
    auto const length = std::min(input.size() - position, draw(16) + 1);
    switch (draw(8)) {
      case 0: input.erase(position, length); break;
      case 1: input.insert(position, input.substr(draw(input.size() + 1), length)); break;
      case 2: input.insert(position, 1, static_cast<char>(draw(256))); break;
      case 3: input.resize(position); break;
      case 4: {  // the tail of another input
        auto const& other = corpus[draw(corpus.size())];
        input = input.substr(0, position) + other.substr(draw(other.size() + 1));
        break;
      }
      case 5:
        if (!words_.empty()) input.insert(position, words_[draw(words_.size())]);
        break;
      case 6:
        if (position < input.size()) input[position] = "\x00\x01\x7f\x80\xff[{-09\""[draw(11)];
        break;
      default:
        if (position < input.size())
          input[position] = static_cast<char>(input[position] ^ (1 << draw(8)));
    }
  }

  std::vector<std::string> words_;
  std::uint64_t state_ = 0;
};

int replay(fuzz::target const& target, std::vector<std::string> const& corpus, mutator next,
           std::size_t count) {
  for (std::size_t i = 0; i < corpus.size() + count; ++i) {
    auto const input = i < corpus.size() ? corpus[i] : next(corpus);
    // The file is written before the run, because a crash leaves no time for it.
    auto const finding = "finding-" + std::string(target.name);
    std::ofstream(finding, std::ios::binary) << input;
    try {
      target.run(input);
    } catch (std::exception const& problem) {
      std::fprintf(stderr, "input %zu, left in %s: %s\n", i, finding.c_str(), problem.what());
      return 1;
    }
    std::filesystem::remove(finding);
  }
  std::printf("%zu inputs of the corpus and %zu mutations\n", corpus.size(), count);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::span<char*> const words(argv, static_cast<std::size_t>(argc));
  if (words.size() < 4) {
    std::fputs("usage: fuzz_replay TARGET FOLDER COUNT [DICTIONARY]\n", stderr);
    return 2;
  }
  auto const corpus = inputs_of(words[2]);
  if (corpus.empty()) {
    std::fprintf(stderr, "%s: holds no inputs\n", words[2]);
    return 2;
  }
  mutator const mutations(words.size() > 4 ? words_of(words[4]) : std::vector<std::string>{});
  for (auto const& target : fuzz::targets)
    if (target.name == words[1]) return replay(target, corpus, mutations, std::stoul(words[3]));
  std::fprintf(stderr, "there is no target %s\n", words[1]);
  return 2;
}
