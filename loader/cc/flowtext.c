// SPDX-License-Identifier: GPL-2.0-only
/* Flow records as words: see flowtext.h. */
#include <arpa/inet.h>
#include <stddef.h>

#include "cc/controllers.h"
#include "cc/flowtext.h"
#include "out/human.h"
#include "util/text.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define X(number, name, word, text) [number] = word,
static const char *const phases[] = { CCBPF_FLOW_PHASES(X) };
static const char *const signals[] = { CCBPF_FLOW_SIGNALS(X) };
#undef X

const char *phase_word(__u32 phase)
{
	return phase < COUNT(phases) ? phases[phase] : "?";
}

const char *signal_word(__u32 signal)
{
	return signal < COUNT(signals) ? signals[signal] : "?";
}

const char *address_text(__u16 family, const __u8 *address)
{
	char name[INET6_ADDRSTRLEN];

	return inet_ntop(family, address, name, sizeof(name)) ? text("%s", name) : "?";
}

const char *endpoint(__u16 family, const __u8 *address, __u16 port)
{
	const char *name = address_text(family, address);

	return family == AF_INET6 ? text("[%s]:%u", name, port) : text("%s:%u", name, port);
}

static const char *counted(__u32 n, const char *one, const char *many)
{
	return text("%u %s", n, n == 1 ? one : many);
}

static const char *small_words(__u32 window, __u32 gap_us)
{
	return gap_us ? text("window %u: a pair every %s ms", window, human_ms(gap_us))
		      : text("window %u", window);
}

static const char *lp_words(const struct ccbpf_flow_lp *lp)
{
	const char *small = small_words(lp->window, lp->pair_gap_us);

	if (lp->inference_left_us)
		small = text("%s, inference for %s ms more", small,
			     human_ms(lp->inference_left_us));
	return lp->peer_tick_ns ? text("%s, peer's tick %.3f ms", small, lp->peer_tick_ns / 1e6)
				: text("%s, peer's tick not known yet", small);
}

static const char *highspeed_words(const struct ccbpf_flow_hstcp_lp *f)
{
	return text("%s; a %.2f packets, b %.3f, c %.3f of the window", lp_words(&f->lp),
		    f->increase_permille / 1e3, f->decrease_permille / 1e3,
		    f->second_permille / 1e3);
}

static const char *tcpw_words(const struct ccbpf_flow_tcpw *f)
{
	return text(
		"%s, ERE %s; queue %.1f of %.1f (D_min %s, D_max %s, D_loss %s ms, others' part %.2f)",
		small_words(f->window, f->pair_gap_us), human_bps(f->ere_bps), f->queue_milli / 1e3,
		f->threshold_milli / 1e3, human_ms(f->d_min_us), human_ms(f->d_max_us),
		f->d_loss_us ? human_ms(f->d_loss_us) : "?", f->foreground_permille / 1e3);
}

static const char *ltcp_words(const struct ccbpf_flow_ltcp *f)
{
	return text("K %u (from %u to below %u packets), K_R %.3f", f->layer, f->layer_begin,
		    f->layer_end, f->rtt_factor_permille / 1e3);
}

static const char *le_words(const struct ccbpf_flow_le *f)
{
	const char *queue = text("queue %s, %s ms at the last cut; noise %s ms",
				 human_ms(f->block_delay_us), human_ms(f->cut_delay_us),
				 human_ms(f->noise_us));

	if (f->pair_gap_us)
		return text("%s; a pair every %s ms%s", queue, human_ms(f->pair_gap_us),
			    f->back ? text(", then back to %s",
					   counted(f->back, "packet", "packets"))
				    : "");
	return text("%s; a packet more for %u acknowledged ones", queue, f->every);
}

#define X(number, name, word_, text_) [number] = { word_, text_ },
static const struct reason chirp_waits[] = { CCBPF_CHIRP_WAITS(X) };
static const struct reason chirp_ends[] = { CCBPF_CHIRP_ENDS(X) };
#undef X

const struct reason *chirp_wait_of(__u32 wait)
{
	return wait && wait < COUNT(chirp_waits) ? &chirp_waits[wait] : NULL;
}

const struct reason *chirp_end_of(__u32 end)
{
	return end && end < COUNT(chirp_ends) ? &chirp_ends[end] : NULL;
}

/* Why no chirp ever began, or none is complete; NULL: one is, or it is not known. */
static const char *chirp_trouble(const struct ccbpf_flow_nf *f)
{
	const struct reason *wait = chirp_wait_of(f->chirps_wait),
			    *end = chirp_end_of(f->chirps_why);

	if (f->chirps_complete)
		return NULL;
	if (!f->chirps_sent && wait)
		return text("no estimate, no chirp: %s", wait->text);
	if (end)
		return text("no estimate, none of %s is complete: %s",
			    counted(f->chirps_sent, "chirp", "chirps"), end->text);
	return NULL;
}

static const char *nf_words(const struct ccbpf_flow_nf *f)
{
	const char *estimate = "no estimate yet", *trouble = chirp_trouble(f);

	if (trouble)
		return trouble;
	if (f->estimate_age_ms != ~0u)
		estimate = text("estimate %s %s ago", human_bps(f->estimate_kbps * 1000ull),
				human_age(f->estimate_age_ms * 1000000ull));
	return text("%s; %s, %u complete, %u discarded, %.2f MB%s", estimate,
		    counted(f->chirps_sent, "chirp", "chirps"), f->chirps_complete,
		    f->chirps_discarded, f->probe_bytes / 1e6,
		    f->chirping		? ", one under way"
		    : f->range_max_kbps ? text("; the next from %s to %s",
					       human_bps(f->range_min_kbps * 1000ull),
					       human_bps(f->range_max_kbps * 1000ull))
					: "");
}

static const char *rx_words(const struct ccbpf_flow *flow)
{
	const struct ccbpf_flow_rx *f = &flow->rx;
	const char *now = text("window %s, %s in the last round trip", human_bytes(f->window_bytes),
			       human_bytes(f->flight_bytes));

	if (flow->phase == CCBPF_PHASE_SMALL)
		now = text("%s, back to %s when others leave", now, human_bytes(f->back_bytes));
	return text("%s; received %s, held back for %.1f s", now, human_bytes(flow->bytes_acked),
		    f->held_ms / 1e3);
}

static const char *word_of(const struct reason *reason)
{
	return reason ? reason->word : NULL;
}

const char *field_text(const struct field *field, const void *of, __u16 family)
{
	const char *at = (const char *)of + field->offset;

	switch (field->form) {
	case FORM_name:
		return text("%.*s", CCBPF_NAME_LEN, at);
	case FORM_address:
		return address_text(family, (const __u8 *)at);
	case FORM_phase:
		return phase_word(field_number(field, of));
	case FORM_signal:
		return signal_word(field_number(field, of));
	case FORM_chirp_wait:
		return word_of(chirp_wait_of(field_number(field, of)));
	case FORM_chirp_end:
		return word_of(chirp_end_of(field_number(field, of)));
	default:
		return NULL;
	}
}

/* What the tables say, for a controller without a sentence of its own below. */
static const char *field_words(const struct field *field, const struct ccbpf_flow *flow)
{
	const char *shown = field_text(field, flow->own, flow->family);

	if (field->form == FORM_s32)
		return text("%s %lld", field->name, (__s64)field_number(field, flow->own));
	if (field_is_number(field))
		return text("%s %llu", field->name, field_number(field, flow->own));
	return text("%s %s", field->name, shown ? shown : "-");
}

static const char *parts_words(const struct ccbpf_flow *flow)
{
	char words[512] = "";
	const struct part *part;

	for (unsigned int i = 0; (part = flow_part(flow->kind, i)); i++)
		for (unsigned int j = 0; j < part->n; j++)
			append(words, sizeof(words), ", ", "%s",
			       field_words(&part->fields[j], flow));
	if (words[0])
		return text("%s", words);
	return controller_of_kind(flow->kind) ? "no fields of its own"
					      : "unknown to this version of ccbpf";
}

const char *flow_own_words(const struct ccbpf_flow *flow)
{
	switch (flow->kind) {
	case CCBPF_KIND_tcp_lp:
	case CCBPF_KIND_tcp_lp_ecn:
		return lp_words(&flow->lp);
	case CCBPF_KIND_hstcp_lp:
		return highspeed_words(&flow->hstcp_lp);
	case CCBPF_KIND_tcpw_lp:
		return tcpw_words(&flow->tcpw);
	case CCBPF_KIND_ltcp:
		return ltcp_words(&flow->ltcp);
	case CCBPF_KIND_nf_tcp:
		return nf_words(&flow->nf);
	case CCBPF_KIND_rx_le:
		return rx_words(flow);
	case CCBPF_KIND_le:
		return le_words(&flow->le);
	default:
		return parts_words(flow);
	}
}

/* "47 indications (2 to the smallest window)" */
static const char *indications_words(const struct ccbpf_flow *f)
{
	const char *all = counted(f->indications, "indication", "indications");
	bool part = f->kind == CCBPF_KIND_hstcp_lp; /* its second indication leaves this part */

	return f->cuts_to_one ? text("%s (%u %s)", all, f->cuts_to_one,
				     part ? "by c" : "to the smallest window")
			      : all;
}

/* A receiver answers marks, and does not count them. */
static const char *ecn_words(const struct ccbpf_flow *f)
{
	if (!f->ecn)
		return "no ECN";
	return f->kind == CCBPF_KIND_rx_le ? "ECN" : counted(f->marks, "mark", "marks");
}

const char *flow_met_words(const struct ccbpf_flow *f)
{
	return text("met: %s, %s, %s, %u undone; base RTT %s ms, delay by %s; yielded %s of %s",
		    indications_words(f), counted(f->losses, "loss", "losses"), ecn_words(f),
		    f->undos, human_ms(f->rtt_min_us), signal_word(f->delay_source),
		    human_age(f->life.yielded_ns), human_age(f->life.sending_ns));
}
