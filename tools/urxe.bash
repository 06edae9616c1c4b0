# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Completion for bash: source this file, or let bash-completion find it under the name "urxe".

_urxe_devices()
{
	"${COMP_WORDS[0]}" devices 2>/dev/null | awk '/^[^ ]/ { print $1 }'
}

# Behind "urxe run [options] [--]" stands another command: complete that one.
_urxe_run()
{
	local i=2
	while ((i < COMP_CWORD)); do
		case ${COMP_WORDS[i]} in
		--devices | --fault | --log | --host | --fabric) ((i += 2)) ;;
		--*) ((i++)) ;;
		*) break ;;
		esac
	done
	case ${COMP_WORDS[COMP_CWORD - 1]} in
	--log)
		mapfile -t COMPREPLY < <(compgen -W "error warn info debug" -- "$cur")
		return
		;;
	--devices | --fault | --host | --fabric) return ;;
	esac
	if ((i < COMP_CWORD)) && declare -F _command_offset >/dev/null; then
		_command_offset "$i"
	elif ((i < COMP_CWORD)); then
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
	elif [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "--devices --fault --log --host --fabric --pool --" -- "$cur")
	else
		mapfile -t COMPREPLY < <(compgen -c -- "$cur")
	fi
}

_urxe()
{
	local cur=${COMP_WORDS[COMP_CWORD]}
	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		mapfile -t COMPREPLY < <(compgen -W \
			"run devices counters listeners fault fabric ipoib --help --version" -- "$cur")
		return
	fi
	case ${COMP_WORDS[1]} in
	run) _urxe_run ;;
	counters | fault)
		if ((COMP_CWORD == 2)); then
			mapfile -t COMPREPLY < <(compgen -W "$(_urxe_devices)" -- "$cur")
		elif [[ ${COMP_WORDS[1]} == fault ]] && ((COMP_CWORD == 3)); then
			mapfile -t COMPREPLY < <(compgen -W "off drop= dup= reorder= corrupt= delay=" \
				-- "$cur")
		fi
		;;
	esac
}

complete -F _urxe urxe
