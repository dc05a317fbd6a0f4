// The targets without a fuzzer: `fuzz_replay TARGET FOLDER COUNT [DICTIONARY]` runs one over its
// corpus and over COUNT mutations of it, the same ones every time. An input that is a finding is
// left in the file finding-TARGET.
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
#include <string_view>
#include <utility>
#include <vector>

#include "targets.hpp"

namespace {

std::string content_of(std::filesystem::path const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Files of a folder, by name.
std::vector<std::string> inputs_of(std::filesystem::path const& folder) {
  std::vector<std::filesystem::path> paths;
  for (auto const& entry : std::filesystem::directory_iterator(folder))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> inputs;
  for (auto const& path : paths) inputs.push_back(content_of(path));
  return inputs;
}

/// The words of a libFuzzer dictionary: what stands between the quotes of each line, with \xHH.
std::vector<std::string> words_of(std::filesystem::path const& dictionary) {
  std::vector<std::string> words;
  std::ifstream file(dictionary);
  for (std::string line; std::getline(file, line);) {
    auto const open = line.find('"');
    auto const close = line.rfind('"');
    if (line.starts_with('#') || close == open) continue;
    std::string word;
    for (auto at = open + 1; at < close; ++at) {
      if (line[at] == '\\' && line[at + 1] == 'x') {
        unsigned value = 0;
        std::from_chars(line.data() + at + 2, line.data() + at + 4, value, 16);
        word += static_cast<char>(value);
        at += 3;
      } else {
        if (line[at] == '\\') ++at;
        word += line[at];
      }
    }
    words.push_back(word);
  }
  return words;
}

/// Changes inputs a little; the same sequence every time (splitmix64).
class mutator {
 public:
  explicit mutator(std::vector<std::string> words) : words_(std::move(words)) {}

  std::string operator()(std::span<std::string const> corpus) {
    auto input = corpus[below(corpus.size())];
    for (auto left = 1 + below(6); left > 0; --left) change(input, corpus);
    return input;
  }

 private:
  std::size_t below(std::size_t limit) {
    auto z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return static_cast<std::size_t>((z ^ (z >> 31)) % limit);
  }

  void change(std::string& input, std::span<std::string const> corpus) {
    auto const at = below(input.size() + 1);
    auto const some = std::min(input.size() - at, below(16) + 1);
    switch (below(8)) {
      case 0: input.erase(at, some); break;
      case 1: input.insert(at, input.substr(below(input.size() + 1), some)); break;
      case 2: input.insert(at, 1, static_cast<char>(below(256))); break;
      case 3: input.resize(at); break;
      case 4: {  // the tail of another
        auto const& other = corpus[below(corpus.size())];
        input = input.substr(0, at) + other.substr(below(other.size() + 1));
        break;
      }
      case 5:
        if (!words_.empty()) input.insert(at, words_[below(words_.size())]);
        break;
      case 6:
        if (at < input.size()) input[at] = "\x00\x01\x7f\x80\xff[{-09\""[below(11)];
        break;
      default:
        if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
    }
  }

  std::vector<std::string> words_;
  std::uint64_t state_ = 0;
};

int replay(fuzz::target const& target, std::vector<std::string> const& corpus, mutator next,
           std::size_t count) {
  for (std::size_t i = 0; i < corpus.size() + count; ++i) {
    auto const input = i < corpus.size() ? corpus[i] : next(corpus);
    // written first: a crash leaves no time for it
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
