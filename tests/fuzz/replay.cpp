// replay FOLDER...: gives each file in the folders to the target, as a regression test that any
// compiler can build.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "target.hpp"

int main(int argc, char** argv) {
  int inputs = 0;
  try {
    for (int i = 1; i < argc; ++i)
      for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
        std::ifstream file(entry.path(), std::ios::binary);
        const std::string text{std::istreambuf_iterator<char>(file), {}};
        std::fprintf(stderr, "%s\n",
                     entry.path().c_str());  // the last one said is the one that failed
        LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
        ++inputs;
      }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "threw: %s\n", error.what());
    return 1;
  }
  std::printf("%d inputs\n", inputs);
  return inputs == 0 ? 1 : 0;
}
