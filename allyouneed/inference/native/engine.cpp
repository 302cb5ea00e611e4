// What Python calls. No exception passes: what fails, for want of memory, gives 0 or null.
#include "transformer.h"

template <class Work>
int attempted(const Work& work) {
    try {
        work();
        return 1;
    } catch (const std::exception&) {
        return 0;
    }
}

extern "C" {
Engine* engine_new(const Shape* shape, int eight_bits, int n_threads) {
    Engine* engine = nullptr;
    attempted([&] {
        if (eight_bits)
            engine = new EngineOf<int8_t>(*shape, n_threads);
        else
            engine = new EngineOf<float>(*shape, n_threads);
    });
    return engine;
}

void engine_free(Engine* engine) { delete engine; }

int engine_set_linear(Engine* engine, int number, int n_out, int n_in, const void* w,
                      const float* scale, const float* bias) {
    return attempted([&] { engine->set_linear(number, n_out, n_in, w, scale, bias); });
}

int engine_set_norm(Engine* engine, int number, const float* gain, const float* bias) {
    return attempted([&] { engine->set_norm(number, gain, bias); });
}

int engine_reserve(Engine* engine, int n_slots, int n_beams, int longest_source,
                   int longest_target, const float* positions) {
    return attempted([&] {
        engine->reserve(n_slots, n_beams, longest_source, longest_target, positions);
    });
}

int engine_encode(Engine* engine, int n_sentences, const int32_t* ids, const int32_t* lengths,
                  const int32_t* slots) {
    return attempted([&] { engine->encode(n_sentences, ids, lengths, slots); });
}

int engine_watch(Engine* engine, int layer, int stride, float* weights) {
    return attempted([&] { engine->watch(layer, stride, weights); });
}

int engine_step(Engine* engine, int n_rows, const Row* rows, const int32_t* origins, int n_best,
                int32_t* ids, float* log_probs) {
    return attempted([&] { engine->step(n_rows, rows, origins, n_best, ids, log_probs); });
}
}
