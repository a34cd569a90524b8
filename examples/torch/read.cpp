// A program without PyTorch reads what PyTorch trained and tells how well the model of model.py
// predicts a text. It gets the weights by their keys, whole, whatever mesh has saved them.
//   torch_read DIRECTORY TEXT     checkpoints of train.py, and 2 to 49 characters
#include <algorithm>
#include <cairn/cairn.hpp>
#include <cmath>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

constexpr std::int64_t width = 48, heads = 6, blocks = 2, vocabulary = 96, context = 48;

using Numbers = std::vector<double>;

struct Model {
  std::map<std::string, std::vector<float>> weights;
  std::int64_t step = 0;

  explicit Model(const std::string& directory) {
    cairn::State state;
    const auto add = [&](const std::string& name, cairn::Dims shape) {
      auto& mine = weights[name];
      mine.resize(static_cast<std::size_t>(cairn::element_count(shape)));
      state.add("model/" + name, cairn::whole(mine.data(), std::move(shape)));
    };
    const auto linear = [&](const std::string& name, std::int64_t out, std::int64_t in) {
      add(name + ".weight", {out, in});
      add(name + ".bias", {out});
    };
    const auto norm = [&](const std::string& name) {
      add(name + ".weight", {width});
      add(name + ".bias", {width});
    };
    add("characters.weight", {vocabulary, width});
    add("places.weight", {context, width});
    for (int b = 0; b < blocks; ++b) {
      const auto block = "blocks." + std::to_string(b) + ".";
      norm(block + "before");
      norm(block + "between");
      for (const auto* name : {"query", "key", "value", "out"}) linear(block + name, width, width);
      linear(block + "up", 4 * width, width);
      linear(block + "down", width, 4 * width);
    }
    norm("last");
    add("head.weight", {vocabulary, width});
    state.add("step", step);

    cairn::ManagerOptions reading;
    reading.read_only = true;
    cairn::CheckpointManager manager(cairn::serial_group(), directory, reading);
    // Only the model is restored; nothing is read of the optimizer and the run.
    if (!manager.restore_latest(state, {.unused = cairn::Unused::silent}))
      throw std::runtime_error("there is no checkpoint in " + directory);
  }

  Numbers linear(const std::string& name, const Numbers& x) const {
    const auto& weight = weights.at(name + ".weight");
    const auto bias = weights.find(name + ".bias");
    Numbers y(weight.size() / x.size());
    for (std::size_t o = 0; o < y.size(); ++o) {
      y[o] = bias == weights.end() ? 0 : bias->second[o];
      for (std::size_t i = 0; i < x.size(); ++i) y[o] += weight[o * x.size() + i] * x[i];
    }
    return y;
  }
  Numbers norm(const std::string& name, Numbers x) const {
    double mean = 0, variance = 0;
    for (const auto value : x) mean += value / static_cast<double>(x.size());
    for (const auto value : x) {
      variance += (value - mean) * (value - mean) / static_cast<double>(x.size());
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = (x[i] - mean) / std::sqrt(variance + 1e-5) * weights.at(name + ".weight")[i] +
             weights.at(name + ".bias")[i];
    }
    return x;
  }
  // For each place, what the heads find in the places up to it.
  std::vector<Numbers> attention(const std::string& block, const std::vector<Numbers>& xs) const {
    std::vector<Numbers> queries, keys, values, found;
    constexpr std::size_t size = width / heads;
    for (const auto& x : xs) {
      const auto y = norm(block + "before", x);
      queries.push_back(linear(block + "query", y));
      keys.push_back(linear(block + "key", y));
      values.push_back(linear(block + "value", y));
      Numbers seen(width);
      for (std::size_t first = 0; first < width; first += size) {
        Numbers shares;
        double all = 0;
        for (const auto& key : keys) {
          double fit = 0;
          for (std::size_t i = first; i < first + size; ++i) fit += queries.back()[i] * key[i];
          shares.push_back(std::exp(fit / std::sqrt(static_cast<double>(size))));
          all += shares.back();
        }
        for (std::size_t t = 0; t < keys.size(); ++t) {
          for (std::size_t i = first; i < first + size; ++i)
            seen[i] += shares[t] / all * values[t][i];
        }
      }
      found.push_back(linear(block + "out", seen));
    }
    return found;
  }
  // The mean cross entropy of all characters but the first.
  double loss(const std::string& text) const {
    const auto number = [](char c) {
      const auto n = static_cast<std::int64_t>(static_cast<unsigned char>(c)) - 32;
      return static_cast<std::size_t>(n >= 0 && n < vocabulary - 1 ? n : vocabulary - 1);
    };
    std::vector<Numbers> xs;
    for (std::size_t t = 0; t + 1 < text.size(); ++t) {
      Numbers x(width);
      for (std::size_t i = 0; i < width; ++i) {
        x[i] = weights.at("characters.weight")[number(text[t]) * width + i] +
               weights.at("places.weight")[t * width + i];
      }
      xs.push_back(std::move(x));
    }
    const auto move = [](Numbers& x, const Numbers& by) {
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += by[i];
    };
    for (int b = 0; b < blocks; ++b) {
      const auto block = "blocks." + std::to_string(b) + ".";
      const auto found = attention(block, xs);
      for (std::size_t t = 0; t < xs.size(); ++t) {
        move(xs[t], found[t]);
        auto inner = linear(block + "up", norm(block + "between", xs[t]));
        for (auto& value : inner) value *= 0.5 * (1 + std::erf(value / std::sqrt(2.0)));
        move(xs[t], linear(block + "down", inner));
      }
    }
    double sum = 0;
    for (std::size_t t = 0; t < xs.size(); ++t) {
      const auto logits = linear("head", norm("last", xs[t]));
      double all = 0;
      for (const auto logit : logits) all += std::exp(logit);
      sum += std::log(all) - logits[number(text[t + 1])];
    }
    return sum / static_cast<double>(xs.size());
  }
};

int main(int argc, char** argv) {
  const std::string text = argc == 3 ? argv[2] : "";
  if (text.size() < 2 || text.size() > context + 1) {
    std::fprintf(stderr, "usage: torch_read DIRECTORY TEXT, of 2 to %d characters\n",
                 int(context + 1));
    return 2;
  }
  try {
    const Model model(argv[1]);
    std::printf("step %lld loss %.9f\n", static_cast<long long>(model.step), model.loss(text));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "torch_read: %s\n", error.what());
    return 1;
  }
}
